package route

// Pairs finds out whether the names by which instances answer and the addresses that requests are sent to go together one by one. If
// they do, it was us who routed; if not, a gateway did. The zero value is ready.
type Pairs struct {
	address map[string]string // by name
	name    map[string]string // by address
	mixed   bool
}

// Add notes who answered at an address; "" is nobody.
func (p *Pairs) Add(name, address string) {
	if name == "" || address == "" || p.mixed {
		return
	}
	if p.address == nil {
		p.address, p.name = map[string]string{}, map[string]string{}
	}
	knownAddress, known := p.address[name]
	knownName, knownToo := p.name[address]
	p.mixed = known && knownAddress != address || knownToo && knownName != name
	p.address[name], p.name[address] = address, name
}

// OneByOne tells whether no name has answered at two addresses, and no two names at one.
func (p *Pairs) OneByOne() bool { return !p.mixed }
