package shard

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// A board is where the shards leave entries for each other: files of a shared directory, or a table that shard 0 serves over HTTP.
type board interface {
	put(name string, entry []byte) error       // replaces an older one
	get(name string) (entry []byte, err error) // nil if there is none
	close()
}

// openBoard opens what --start-barrier names.
func openBoard(where string, part Part) (board, error) {
	if !strings.Contains(where, "://") {
		if err := os.MkdirAll(where, 0o777); err != nil {
			return nil, err
		}
		return dirBoard(where), nil
	}
	u, err := url.Parse(where)
	if err != nil || u.Scheme != "http" || u.Port() == "" || strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("%s: want a directory, or http://HOST:PORT where HOST is the machine of shard 0", where)
	}
	if part.Leads() {
		return serveBoard(u, part.Count)
	}
	return &askedBoard{fasthttp.Client{Dial: fasthttp.DialDualStack, ReadTimeout: askTimeout, WriteTimeout: askTimeout, MaxResponseBodySize: maxEntry}, "http://" + u.Host + "/"}, nil
}

// dirBoard is a directory with a file for each entry. A file is whole as soon as it has its name.
type dirBoard string

func (d dirBoard) put(name string, entry []byte) error {
	part := filepath.Join(string(d), fmt.Sprintf(".%s-%x", name, rand.Uint32()))
	if err := os.WriteFile(part, entry, 0o644); err != nil {
		return err
	}
	return os.Rename(part, filepath.Join(string(d), name))
}

func (d dirBoard) get(name string) ([]byte, error) {
	entry, err := os.ReadFile(filepath.Join(string(d), name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entry, err
}

func (dirBoard) close() {}

// Bounds of what is asked over HTTP.
const (
	askTimeout = 3 * time.Second
	maxEntry   = 64 << 10 // bytes
)

// servedBoard is a directory of shard 0, which the others read and write over HTTP.
type servedBoard struct {
	dirBoard
	ln net.Listener
}

// serveBoard listens on the address that the others are told. If that is none of this machine's, such as that of a service before it, it
// listens on the port of all addresses.
func serveBoard(u *url.URL, count int) (board, error) {
	ln, err := net.Listen("tcp", u.Host)
	if err != nil {
		if ln, _ = net.Listen("tcp", ":"+u.Port()); ln == nil {
			return nil, fmt.Errorf("shard 0 cannot listen there: %w", err)
		}
	}
	dir, err := os.MkdirTemp("", "fastreplay-barrier-")
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	b := servedBoard{dirBoard(dir), ln}
	server := &fasthttp.Server{MaxRequestBodySize: maxEntry, ReadTimeout: time.Minute, WriteTimeout: askTimeout, Logger: log.New(io.Discard, "", 0)}
	server.Handler = func(ctx *fasthttp.RequestCtx) {
		name := string(ctx.Path()[1:])
		index, err := strconv.Atoi(strings.TrimPrefix(name, shardEntry))
		if of := err == nil && index > 0 && index < count; !of && name != beginEntry && name != startEntry && name != stopEntry {
			ctx.SetStatusCode(fasthttp.StatusNotFound)
		} else if ctx.IsPost() {
			_ = b.put(name, ctx.PostArgs().Peek("entry"))
		} else if entry, _ := b.get(name); entry != nil {
			ctx.SetBody(entry)
		} else {
			ctx.SetStatusCode(fasthttp.StatusNotFound)
		}
	}
	go func() { _ = server.Serve(ln) }()
	return b, nil
}

func (b servedBoard) close() {
	_ = b.ln.Close()
	_ = os.RemoveAll(string(b.dirBoard))
}

// askedBoard is shard 0's table for the others.
type askedBoard struct {
	client fasthttp.Client
	url    string
}

func (b *askedBoard) put(name string, entry []byte) error {
	var args fasthttp.Args
	args.SetBytesV("entry", entry)
	status, _, err := b.client.Post(nil, b.url+name, &args)
	return cmp.Or(err, unexpected(status))
}

func (b *askedBoard) get(name string) (entry []byte, err error) {
	status, entry, err := b.client.Get(nil, b.url+name)
	if status == fasthttp.StatusNotFound || err != nil {
		return nil, err
	}
	return entry, unexpected(status)
}

func unexpected(status int) error {
	if status != fasthttp.StatusOK {
		return fmt.Errorf("status %d: is that the address of shard 0?", status)
	}
	return nil
}

func (b *askedBoard) close() { b.client.CloseIdleConnections() }

// post puts v as JSON.
func post(b board, name string, v any) error {
	entry, err := json.Marshal(v)
	if err == nil {
		err = b.put(name, entry)
	}
	return err
}

// read gets an entry; nil if there is none.
func read[T any](b board, name string) (*T, error) {
	entry, err := b.get(name)
	if entry == nil || err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(entry, v); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}
