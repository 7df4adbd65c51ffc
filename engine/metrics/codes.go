package metrics

// Code names the rule by which a measurement is not valid. It is in results.
type Code string

// The codes of reasons.
const (
	SenderDied     Code = "sender_died"
	Interrupted    Code = "interrupted"
	PrimerFailed   Code = "primer_failed"
	NoPlays        Code = "no_plays"
	Unaccounted    Code = "unaccounted"
	Unwritten      Code = "unwritten"
	NothingOK      Code = "nothing_ok"
	ClientFailures Code = "client_failures"
	SentEarly      Code = "early"
	Starved        Code = "starved"
	Prompts        Code = "prompts"
	ShortRows      Code = "short_rows"
	WrongAnswers   Code = "answers"
	CutShort       Code = "cut_short"
	OverLong       Code = "over_long"
	Warm           Code = "warm"
	Refused        Code = "refused"
	Models         Code = "models"      // answers name several
	EmptyFirst     Code = "empty_first" // the first chunk of answers has no text
	LateSending    Code = "drift"
	LateReading    Code = "receive_lag"
	NoSummary      Code = "no_summary" // the run wrote none
	Records        Code = "records"    // they are not those that the run wrote
	LostShards     Code = "shards"
)

// codeTraits are what a rule is about.
type codeTraits struct {
	machine bool // what the client's machine did, and not what was sent or answered
	client  bool // the client could not do more: its machine, its sending process, or a fault of ours
	unseen  bool // no record shows it, so that it holds for any part of the run
	ending  bool // how the run ended
}

func (c Code) traits() codeTraits {
	return map[Code]codeTraits{
		SenderDied:     {client: true},
		Interrupted:    {ending: true},
		PrimerFailed:   {ending: true},
		NoPlays:        {ending: true, unseen: true},
		NothingOK:      {ending: true},
		NoSummary:      {ending: true, unseen: true},
		SentEarly:      {client: true},
		LateSending:    {client: true, machine: true},
		LateReading:    {client: true, machine: true, unseen: true},
		Starved:        {client: true, machine: true, unseen: true},
		ClientFailures: {client: true, machine: true, unseen: true},
		Unwritten:      {unseen: true},
		ShortRows:      {unseen: true},
		Refused:        {unseen: true},
		Models:         {unseen: true},
	}[c]
}

// OfMachine reports whether the client's machine is the reason, and not what was sent or answered.
func (c Code) OfMachine() bool { return c.traits().machine }

// OfClient reports whether the client could not do more, so that the numbers are not the server's.
func (c Code) OfClient() bool { return c.traits().client }

// Unseen reports whether no record shows it, so that it holds for any part of the run.
func (c Code) Unseen() bool { return c.traits().unseen }

// Shifts is +1 if a latency may in truth be longer than measured, -1 if it may be shorter, and 0 if the rule says
// nothing of it. latency is its key, such as ttft.
func (c Code) Shifts(latency string) int {
	if c != EmptyFirst {
		return 0
	}
	return map[string]int{
		"ttft":         1,
		"ttft_planned": 1,
		"ttfo":         1,
		"ttfo_planned": 1,
		"tpot":         -1,
	}[latency]
}

// OfEnding reports whether it is about how the run ended, and not about what was measured until then.
func (c Code) OfEnding() bool { return c.traits().ending }
