package recorder

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/fastreplay/fastreplay/engine/host"
)

// headBytes is the room of a head, which is written again and again at the same place.
const headBytes = 4096

// disk is what files are made of.
type disk interface {
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Close() error
}

// file is a trace that is being written. At any moment it is whole. What is appended is a frame of its own, and what
// could not be written to its end is cut off again.
type file struct {
	f       disk
	path    string
	packer  *zstd.Encoder // nil = rows are not packed
	end     int64         // of what is whole
	rows    int64         // bytes of rows, not packed
	sinceNS int64         // when it was created, on the recorder's clock
}

// create makes the file of a path, or the first of path-2, path-3 and so on that is not there yet. Mine is the caller's
// own file; "" = none. That of another recorder is refused: two would tell the instants of one series by two clocks.
func create(path, mine string, nowNS int64) (*file, error) {
	dir, name := filepath.Split(path)
	stem, ends, _ := strings.Cut(name, ".")
	if ends != "" {
		ends = "." + ends
	}
	for n := 2; ; n++ {
		f, err := createLocked(path)
		if errors.Is(err, os.ErrExist) {
			info, _ := os.Stat(path)
			switch {
			case info != nil && !info.Mode().IsRegular():
				return nil, fmt.Errorf("%s is no file; give the name of one", path)
			case path != mine && host.Locked(path):
				return nil, fmt.Errorf("another recorder writes %s; give this one another name", path)
			}
			path = fmt.Sprintf("%s%s-%d%s", dir, stem, n, ends)
			continue
		}
		if err != nil {
			return nil, err
		}
		made := &file{f: f, path: path, sinceNS: nowNS}
		if strings.HasSuffix(path, ".zst") {
			made.packer, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		}
		return made, err
	}
}

// createLocked makes a file that is locked from its first moment on. Nobody sees it under its name before that, unless
// its file system has no links.
func createLocked(path string) (*os.File, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, os.ErrExist
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err == nil {
		host.Lock(f)
		err = os.Link(f.Name(), path)
		_ = os.Remove(f.Name())
		if err == nil {
			return f, nil
		}
		_ = f.Close()
		if errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		host.Lock(f)
	}
	return f, err
}

// setHead writes the head, a line of JSON, to its place.
func (f *file) setHead(line []byte) error {
	if len(line) >= headBytes {
		return fmt.Errorf("the head has %d bytes, and room is for %d", len(line), headBytes)
	}
	text := append(bytes.Repeat([]byte(" "), headBytes-1), '\n')
	copy(text, line)
	if f.packer != nil {
		text = append(storedFrame(headBytes), text...)
	}
	f.end = max(f.end, int64(len(text)))
	_, err := f.f.WriteAt(text, 0)
	return err
}

// storedFrame is the beginning of a frame that has so many bytes as they are, so that its length never changes: RFC
// 8878, sections 3.1.1.1 and 3.1.1.2, with one segment, a content size of 2 bytes, and one last raw block.
func storedFrame(size int) []byte {
	const oneSegment, sizeOfTwo, leastOfTwo = 0x20, 0x40, 256
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, oneSegment | sizeOfTwo}
	frame = binary.LittleEndian.AppendUint16(frame, uint16(size-leastOfTwo))
	block := uint32(size)<<3 | 1
	return append(frame, byte(block), byte(block>>8), byte(block>>16))
}

// append writes rows to the disk, all or none.
func (f *file) append(rows []byte) error {
	packed := rows
	if f.packer != nil {
		packed = f.packer.EncodeAll(rows, nil)
	}
	_, err := f.f.WriteAt(packed, f.end)
	if err == nil {
		err = f.f.Sync()
	}
	if err != nil {
		return errors.Join(err, f.f.Truncate(f.end))
	}
	f.end += int64(len(packed))
	f.rows += int64(len(rows))
	return nil
}

// close ends the file, which is removed if it has no rows.
func (f *file) close() error {
	err := errors.Join(f.f.Sync(), f.f.Close())
	if f.rows == 0 {
		return errors.Join(err, os.Remove(f.path))
	}
	return err
}
