package metrics

import "encoding/json"

// dump prints v for comparison.
func dump(v any) string {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		panic(err)
	}
	return string(text)
}
