// Command bareproxy is what any proxy costs, beside which scripts/record-overhead measures the recorder.
//
//	bareproxy http ADDRESS UPSTREAM    the reverse proxy of Go's library with nothing around it
//	bareproxy bytes ADDRESS UPSTREAM   what one end sends goes to the other, read by nobody
package main

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"
)

func main() {
	upstream, err := url.Parse(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	if os.Args[1] == "bytes" {
		log.Fatal(relay(listener, upstream.Host))
	}
	proxy := httputil.NewSingleHostReverseProxy(upstream)
	proxy.FlushInterval = -1 // at once
	// The mock ends connections after 5 s.
	proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 1 << 16, IdleConnTimeout: 4 * time.Second}
	log.Fatal(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // an answer may begin before a request was read
		proxy.ServeHTTP(w, r)
	})))
}

// relay connects each client to the server.
func relay(listener net.Listener, server string) error {
	for {
		client, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer client.Close()
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				return
			}
			defer upstream.Close()
			go copyAll(upstream, client)
			copyAll(client, upstream)
		}()
	}
}

// copyAll reads and writes, as a proxy does that looks at what it passes: io.Copy would let the kernel do it.
func copyAll(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, buffer)
	_ = to.Close()
}
