#!/bin/sh
# Makes codec/prompt/words.txt anew: the words that are one token each in every
# vocabulary of sources.py. Needs python3, npm and the registries of both; takes
# about two minutes. Nothing but the word list is kept.
set -eu
export PYTHONDONTWRITEBYTECODE=1
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --requirement requirements.txt
for package in $("$work/venv/bin/python" sources.py); do
	archive=$(npm pack --silent --pack-destination "$work" "$package")
	mkdir -p "$work/npm/$package"
	tar -xzf "$work/$archive" -C "$work/npm/$package" --strip-components=1
	rm "$work/$archive"
done
"$work/venv/bin/python" words.py "$work/npm" >"$work/words.txt"
mv "$work/words.txt" ../../codec/prompt/words.txt
