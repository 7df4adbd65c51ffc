#!/bin/sh
# Makes codec/tokenizer/testdata anew: small tokenizers of each kind,
# trained here; what the reference implementation, Hugging Face's tokenizers
# library, makes of varied texts; and its count of 1,000 of our prompts for each
# kind, 1 to 20,000 tokens long. Needs python3, PyPI and Go; takes some minutes
# and about 500 MB in the temporary folder.
#
#   make.sh           all of it
#   make.sh count     leaves the tokenizers and texts and counts prompts again,
#                     as is due after a change of the choice of words
set -eu
export PYTHONDONTWRITEBYTECODE=1
cd "$(dirname "$0")"
data=../../codec/tokenizer/testdata
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --requirement requirements.txt
if [ "${1:-}" != count ]; then
	"$work/venv/bin/python" train.py "$data"
	"$work/venv/bin/python" golden.py "$data"
fi
mkdir "$work/prompts"
go test -count=1 -run '^TestReferenceCountsPrompts$' ../../codec/tokenizer -write "$work/prompts"
"$work/venv/bin/python" count.py "$data" "$work/prompts"
