package tokenizer

type choice struct{}
