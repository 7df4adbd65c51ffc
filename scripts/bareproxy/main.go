// Command bareproxy is the reverse proxy of Go's library with nothing around it, which scripts/record-overhead measures
// beside the recorder: bareproxy ADDRESS UPSTREAM
package main

import (
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"
)

func main() {
	upstream, err := url.Parse(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(upstream)
	proxy.FlushInterval = -1 // at once
	// The mock ends connections after 5 s.
	proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 1 << 16, IdleConnTimeout: 4 * time.Second}
	log.Fatal(http.ListenAndServe(os.Args[1], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // an answer may begin before a request was read
		proxy.ServeHTTP(w, r)
	})))
}
