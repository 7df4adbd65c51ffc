// A recording server that shares no code with any client: one thread with epoll, HTTP/1.1, answers of the completions API.
//
//   server PORT TOKENS GAP_US FIRST_US [PEM]
//
// Built with -DTLS -lssl it speaks TLS, if PEM is a file of a key and its certificate.
// A request that asks for a stream gets TOKENS events: all in one write if GAP_US is 0, else the first after FIRST_US and
// one each GAP_US, each with the instant before its write ("sent_ns", CLOCK_MONOTONIC). Any other request gets one whole
// answer. SIGTERM ends it: it prints how many requests and events it has answered.
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#ifdef TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
static SSL_CTX *context; // NULL: none
#endif

enum { MOST_CONNECTIONS = 1 << 16, MOST_BURST = 64 };

struct connection {
	int fd;
#ifdef TLS
	SSL *tls;
#endif
	int left;      // events to come
	int place;     // in the heap; -1 = none
	uint64_t next; // when the next event leaves, ns
	size_t have;   // bytes of in
	char in[1 << 16];
};

static struct connection *connections[MOST_CONNECTIONS];
static struct connection *heap[MOST_CONNECTIONS]; // those with events to come, the earliest first
static int heap_size;
static int tokens;
static uint64_t gap, first;
static char whole[4096], burst[1 << 16];
static int whole_size, burst_size;
static long requests, events;
static volatile sig_atomic_t stopped;

static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

static uint64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void put(struct connection *c, int place) {
	heap[place] = c;
	c->place = place;
}

static void up(struct connection *c) {
	int place = c->place;
	for (int above; place > 0 && heap[above = (place - 1) / 2]->next > c->next; place = above)
		put(heap[above], place);
	put(c, place);
}

static void down(struct connection *c) {
	int place = c->place;
	for (int below; (below = 2 * place + 1) < heap_size; place = below) {
		if (below + 1 < heap_size && heap[below + 1]->next < heap[below]->next)
			below++;
		if (heap[below]->next >= c->next)
			break;
		put(heap[below], place);
	}
	put(c, place);
}

static void leave(struct connection *c) {
	struct connection *last = heap[--heap_size];
	int place = c->place;
	c->place = -1;
	if (last == c)
		return;
	put(last, place);
	up(last);
	down(last);
}

static void end(struct connection *c) {
	if (c->place >= 0)
		leave(c);
#ifdef TLS
	SSL_free(c->tls);
#endif
	close(c->fd);
	connections[c->fd] = NULL;
	free(c);
}

// read_some is recv(2).
static ssize_t read_some(struct connection *c, char *to, size_t size) {
#ifdef TLS
	if (c->tls) {
		ERR_clear_error(); // of other connections
		int n = SSL_read(c->tls, to, size);
		errno = SSL_get_error(c->tls, n) == SSL_ERROR_WANT_READ ? EAGAIN : EPROTO;
		return n > 0 ? n : -1;
	}
#endif
	return recv(c->fd, to, size, 0);
}

static int write_all(struct connection *c, const char *text, int size) {
#ifdef TLS
	if (c->tls)
		return SSL_write(c->tls, text, size) == size;
#endif
	return send(c->fd, text, size, MSG_NOSIGNAL) == size;
}

// event writes a chunk with one event into to, the last one with the end of the stream.
static int event(char *to, int last) {
	char data[512];
	int size = sprintf(data,
		"data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,"
		"\"text\":\" word\",\"logprobs\":null,\"finish_reason\":%s}],\"sent_ns\":%llu}\n\n%s",
		last ? "\"length\"" : "null", (unsigned long long)now(), last ? "data: [DONE]\n\n" : "");
	return sprintf(to, "%x\r\n%s\r\n%s", size, data, last ? "0\r\n\r\n" : "");
}

static int answer(struct connection *c, int stream) {
	requests++;
	if (!stream)
		return write_all(c, whole, whole_size);
	if (gap == 0) {
		events += tokens;
		return write_all(c, burst, burst_size);
	}
	c->left = tokens;
	c->next = now() + first;
	c->place = heap_size++;
	up(c);
	return write_all(c, head, sizeof head - 1);
}

// read_requests answers what has come; 0: the connection is over.
static int read_requests(struct connection *c) {
	for (;;) {
		char *body = memmem(c->in, c->have, "\r\n\r\n", 4);
		if (!body)
			return c->have < sizeof c->in;
		*body = 0;
		char *length = strcasestr(c->in, "content-length:");
		size_t size = body + 4 - c->in + (length ? strtoul(length + 15, NULL, 10) : 0);
		*body = '\r';
		if (c->have < size)
			return size <= sizeof c->in;
		size_t rest = c->in + size - body;
		int stream = memmem(body, rest, "\"stream\":true", 13) || memmem(body, rest, "\"stream\": true", 14);
		memmove(c->in, c->in + size, c->have -= size);
		if (!answer(c, stream))
			return 0;
	}
}

static void accept_all(int listener, int epoll) {
	for (int fd, on = 1; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
		struct connection *c = calloc(1, sizeof *c);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		c->fd = fd;
		c->place = -1;
#ifdef TLS
		if (context) {
			c->tls = SSL_new(context);
			SSL_set_fd(c->tls, fd);
			SSL_set_accept_state(c->tls);
		}
#endif
		connections[fd] = c;
		struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.fd = fd};
		epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
	}
}

static void receive(struct connection *c) {
	for (;;) {
		ssize_t n = read_some(c, c->in + c->have, sizeof c->in - c->have);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n > 0)
			c->have += n;
		if (n <= 0 || !read_requests(c)) {
			end(c);
			return;
		}
#ifndef TLS
		if (c->have == 0) // of a closed loop, no more is to come
			return;
#endif
	}
}

static void send_due(void) {
	char text[1024];
	for (uint64_t at = now(); heap_size > 0 && heap[0]->next <= at;) {
		struct connection *c = heap[0];
		events++;
		int size = event(text, --c->left == 0);
		if (c->left > 0) {
			c->next += gap;
			down(c);
		} else {
			leave(c);
		}
		if (!write_all(c, text, size))
			end(c);
	}
}

static void stop(int signal) {
	(void)signal;
	stopped = 1;
}

int main(int count, char **args) {
#ifdef TLS
	if (count == 6) {
		context = SSL_CTX_new(TLS_server_method());
		SSL_CTX_use_PrivateKey_file(context, args[5], SSL_FILETYPE_PEM);
		SSL_CTX_use_certificate_chain_file(context, args[5]);
		count = 5;
	}
#endif
	if (count != 5) {
		fprintf(stderr, "usage: server PORT TOKENS GAP_US FIRST_US [PEM]\n");
		return 2;
	}
	tokens = atoi(args[2]);
	gap = strtoull(args[3], NULL, 10) * 1000;
	first = strtoull(args[4], NULL, 10) * 1000;
	if (tokens < 1 || (gap == 0 && tokens > MOST_BURST)) {
		fprintf(stderr, "server: want 1 to %d tokens in one write\n", MOST_BURST);
		return 2;
	}
	prctl(PR_SET_TIMERSLACK, 1);
	signal(SIGTERM, stop);
	signal(SIGPIPE, SIG_IGN);
	const char *body =
		"{\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,"
		"\"text\":\" word word word word\",\"logprobs\":null,\"finish_reason\":\"length\"}],"
		"\"usage\":{\"prompt_tokens\":16,\"completion_tokens\":16,\"total_tokens\":32}}";
	whole_size = sprintf(whole, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
		strlen(body), body);
	burst_size = sprintf(burst, "%s", head);
	for (int i = 1; gap == 0 && i <= tokens; i++)
		burst_size += event(burst + burst_size, i == tokens);

	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	int on = 1;
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_port = htons(atoi(args[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (bind(listener, (void *)&at, sizeof at) || listen(listener, 4096)) {
		perror("server");
		return 1;
	}
	int epoll = epoll_create1(0);
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	struct epoll_event e = {.events = EPOLLIN, .data.fd = listener};
	epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &e);
	e.data.fd = timer;
	epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &e);
	struct epoll_event ready[256];
	while (!stopped) {
		if (heap_size > 0) {
			struct itimerspec due = {
				.it_value = {.tv_sec = heap[0]->next / 1000000000, .tv_nsec = heap[0]->next % 1000000000}};
			timerfd_settime(timer, TFD_TIMER_ABSTIME, &due, NULL);
		}
		int n = epoll_wait(epoll, ready, 256, -1);
		for (int i = 0; i < n; i++) {
			int fd = ready[i].data.fd;
			uint64_t expired;
			if (fd == listener)
				accept_all(listener, epoll);
			else if (fd == timer)
				(void)!read(timer, &expired, sizeof expired);
			else if (connections[fd])
				receive(connections[fd]);
		}
		send_due();
	}
	printf("%ld requests, %ld events\n", requests, events);
	return 0;
}
