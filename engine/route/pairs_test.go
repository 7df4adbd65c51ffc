package route

import "testing"

func TestPairs(t *testing.T) {
	type pair struct{ name, address string }
	for _, c := range []struct {
		pairs []pair
		want  bool
	}{
		{nil, true},
		{[]pair{{"a", "1"}, {"b", "2"}, {"a", "1"}}, true},
		{[]pair{{"a", "1"}, {"", "1"}, {"a", ""}, {"b", "2"}}, true},
		{[]pair{{"a", "1"}, {"b", "1"}, {"a", "1"}}, false},
		{[]pair{{"a", "1"}, {"a", "2"}, {"b", "3"}}, false},
	} {
		var p Pairs
		for _, one := range c.pairs {
			p.Add(one.name, one.address)
		}
		if p.OneByOne() != c.want {
			t.Errorf("%v: one by one %t, want %t", c.pairs, p.OneByOne(), c.want)
		}
	}
}
