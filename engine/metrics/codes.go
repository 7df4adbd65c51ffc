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
	Uncounted      Code = "uncounted"   // nobody knows how many tokens answers have
	Unfilled       Code = "unfilled"    // fewer requests than a closed loop has slots
	LateSending    Code = "drift"
	LateReading    Code = "receive_lag"
	NoSummary      Code = "no_summary" // the run wrote none
	Records        Code = "records"    // they are not those that the run wrote
	LostShards     Code = "shards"
)

// CodeTraits are what a rule is about.
type CodeTraits struct {
	Machine bool // what the client's machine did, and not what was sent or answered
	Client  bool // the client could not do more, so that the numbers are not the server's
	Unseen  bool // no record shows it, so that it holds for any part of the run
	Ending  bool // how the run ended, and not what was measured until then
}

// Traits returns what the rule is about.
func (c Code) Traits() CodeTraits {
	return map[Code]CodeTraits{
		SenderDied:     {Client: true},
		Interrupted:    {Ending: true},
		PrimerFailed:   {Ending: true},
		NoPlays:        {Ending: true, Unseen: true},
		NothingOK:      {Ending: true},
		NoSummary:      {Ending: true, Unseen: true},
		SentEarly:      {Client: true},
		LateSending:    {Client: true, Machine: true},
		LateReading:    {Client: true, Machine: true, Unseen: true},
		Starved:        {Client: true, Machine: true, Unseen: true},
		ClientFailures: {Client: true, Machine: true, Unseen: true},
		Unwritten:      {Unseen: true},
		ShortRows:      {Unseen: true},
		Refused:        {Unseen: true},
		Models:         {Unseen: true},
	}[c]
}

// Shifts is +1 if a number may in truth be more than measured, and -1 if it may be less. It is 0 if the rule says
// nothing of it. name is its key, of latencies without a percentile, such as ttft.
func (c Code) Shifts(name string) int {
	return map[Code]map[string]int{
		EmptyFirst: {"ttft": 1, "ttft_planned": 1, "ttfo": 1, "ttfo_planned": 1, "tpot": -1},
		Uncounted:  {"tpot": -1, "ntpot": -1, "output_tokens_per_s": 1},
	}[c][name]
}
