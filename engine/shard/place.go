package shard

import (
	"cmp"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Who knows the secret of an address is a shard. It stands in one of these variables, or in the file that the second
// one names.
const (
	SecretVariable     = "FASTREPLAY_SHARD_SECRET"
	SecretFileVariable = "FASTREPLAY_SHARD_SECRET_FILE"
)

const (
	leastSecret = 16 // characters: who meets a shard may try secrets at leisure afterwards, so it must not be a word
	drawnSecret = 32 // bytes
	howToSecret = ", of at least 16 characters; make it with: openssl rand -hex 32"
)

// place is where shards meet.
type place struct {
	name    string // as --start-barrier has it
	address string // HOST:PORT of shard 0; "" = name is a directory
	secret  []byte // of an address; that of a directory is in its file
}

// parsePlace reads a --start-barrier, and the secret of an address.
func parsePlace(where string) (place, error) {
	if !strings.Contains(where, "://") {
		_, port, err := net.SplitHostPort(where)
		if err == nil && port != "" && !strings.Contains(where, "/") {
			return place{}, fmt.Errorf("is this the machine of shard 0? Then give tcp://%s; else ./%s", where, where)
		}
		return place{name: where}, nil
	}
	u, err := url.Parse(where)
	if err != nil || u.Port() == "" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" {
		return place{}, errors.New("want a directory, or tcp://HOST:PORT where HOST is the machine of shard 0")
	}
	p := place{name: where, address: u.Host}
	p.secret, err = readSecret()
	if err == nil && len(p.secret) == 0 && u.Hostname() != "localhost" && !net.ParseIP(u.Hostname()).IsLoopback() {
		err = fmt.Errorf(
			"whoever reaches this address could start or end the shards: give all shards one secret, in %s or in "+
				"the file that %s names%s",
			SecretVariable, SecretFileVariable, howToSecret)
	}
	return p, err
}

// readSecret reads the secret of an address; nil = there is none.
func readSecret() ([]byte, error) {
	secret := os.Getenv(SecretVariable)
	file := os.Getenv(SecretFileVariable)
	if secret == "" && file == "" {
		return nil, nil
	}
	if secret == "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", SecretFileVariable, err)
		}
		secret = strings.TrimSpace(string(text))
	}
	if len(secret) < leastSecret {
		return nil, fmt.Errorf("the secret has %d characters: want one%s", len(secret), howToSecret)
	}
	return []byte(secret), nil
}

// rendezvous is the file by which shards find shard 0 in a directory, and know each other. Only its owner reads it.
type rendezvous struct {
	Secret    []byte
	Addresses []string
	Over      string // why nobody can come any more; "" = shard 0 was there when it wrote this
}

var errOver = errors.New("this barrier is over")

// draw takes a new directory for one start, and draws its secret. It fails if another shard 0 was there.
func (p *place) draw() error {
	if err := os.MkdirAll(p.name, 0o777); err != nil {
		return err
	}
	name := p.file()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		began := "an unknown time"
		if info, err := os.Lstat(name); err == nil {
			began = info.ModTime().UTC().Format(time.RFC3339)
		}
		return fmt.Errorf("the barrier of another run is there, of %s: give each run a directory of its own", began)
	}
	if err != nil {
		return err
	}
	p.secret = make([]byte, drawnSecret)
	_, _ = rand.Read(p.secret) // it never fails
	return f.Close()
}

// post writes the rendezvous of a directory. It replaces the file, and writes nothing into what somebody may have put
// there, such as a link or a pipe.
func (p *place) post(r *rendezvous) error {
	if p.address != "" {
		return nil
	}
	text, _ := json.Marshal(r)
	f, err := os.CreateTemp(p.name, ".begin-*") // which its owner alone reads
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = cmp.Or(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), p.file())
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func (p *place) file() string { return filepath.Join(p.name, "begin") }

// find reads where shard 0 may be.
func (p *place) find() (addresses []string, err error) {
	if p.address != "" {
		return []string{p.address}, nil
	}
	name := p.file()
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("it has not begun")
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxBody) {
		return nil, fmt.Errorf("%w: %s is not what shard 0 writes", errOver, name)
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w: run all shards as the user of shard 0", err)
	}
	var r rendezvous
	if err = cmp.Or(err, json.Unmarshal(text, &r)); err == nil && r.Over != "" {
		err = fmt.Errorf("%w: %.2500s; give each run a directory of its own", errOver, r.Over)
	}
	p.secret = r.Secret
	return r.Addresses, err
}

// ownAddresses are those by which others may reach a port of this machine.
func ownAddresses(port string) (list []string) {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && !prefix.Addr().IsLinkLocalUnicast() {
			list = append(list, net.JoinHostPort(prefix.Addr().String(), port))
		}
	}
	return list
}

var errSecret = errors.New("who answers there has another secret")

// identity makes of a secret the one key that both sides of a connection must have. Each proves to the other that it
// has it, by TLS: the secret does not travel, and what was recorded is of no use.
func identity(secret []byte) (*tls.Config, error) {
	key := ed25519.NewKeyFromSeed(digest(secret, "identity"))
	public := key.Public().(ed25519.PublicKey)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}},
		ClientAuth:             tls.RequireAnyClientCert,
		SessionTicketsDisabled: true, // each connection proves it anew
		InsecureSkipVerify:     true, // no authority signs: VerifyConnection knows the one key
		VerifyConnection: func(s tls.ConnectionState) error {
			if !public.Equal(s.PeerCertificates[0].PublicKey) {
				return errSecret
			}
			return nil
		},
	}, nil
}

// digest is of a text, and of use to those who know the secret alone.
func digest(secret []byte, text string) []byte {
	h := hmac.New(sha256.New, secret)
	_, _ = io.WriteString(h, text)
	return h.Sum(nil)
}
