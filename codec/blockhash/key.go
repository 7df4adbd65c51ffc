package blockhash

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Key is what hashes are keyed with.
type Key struct {
	secret [32]byte
	// Kept reports that the key is in a file, so that what is hashed with it later can be linked.
	Kept bool
}

// NewKey draws a key.
func NewKey() (k Key) {
	_, _ = rand.Read(k.secret[:]) // it ends the program rather than fail
	return k
}

// OpenKey reads the key in a file. It makes the file, and the key, if the path begins with "new:".
func OpenKey(path string) (Key, error) {
	if made, isNew := strings.CutPrefix(path, "new:"); isNew {
		return makeKey(made)
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return Key{}, fmt.Errorf("%w; new:%s makes one", err, path)
	}
	if err != nil {
		return Key{}, err
	}
	defer f.Close() // nothing was written, so its error does not matter
	info, err := f.Stat()
	if err != nil {
		return Key{}, err
	}
	if open := info.Mode().Perm(); open&0o077 != 0 {
		return Key{}, fmt.Errorf("%s: others than its owner have access (mode %04o), so it is no secret; draw another "+
			"with new:FILE, or run: chmod 600 %s", path, open, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return Key{}, err
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	k := Key{Kept: true}
	if err != nil || len(secret) != len(k.secret) {
		return Key{}, fmt.Errorf("%s holds no key, which is %d hex digits; new:FILE makes one", path, 2*len(k.secret))
	}
	copy(k.secret[:], secret)
	return k, nil
}

// makeKey draws a key and writes it to a new file that only the owner can read.
func makeKey(path string) (Key, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return Key{}, fmt.Errorf("%s is there already; leave out new: to use it", path)
	}
	if err != nil {
		return Key{}, err
	}
	k := NewKey()
	k.Kept = true
	_, err = fmt.Fprintf(f, "%x\n", k.secret)
	return k, errors.Join(err, f.Sync(), f.Close())
}
