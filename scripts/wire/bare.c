// The barest client of server.c, a floor for any other: it keeps nothing, and knows an answer by its last bytes.
//
//   bare PORT STEPS CONNECTIONS REQUESTS [PAUSE]    STEPS: letters of epis, w or t; PAUSE: ms in place of 1
//
// Of REQUESTS = 0 each connection sends one request for a stream, one each 2 ms, as a plan of that rate does. Else so
// many are sent in a closed loop: w asks for whole answers, t for streams. Each letter adds what it costs:
//
//   e  epoll and recv(2)                      s  the kernel's stamps, by recvmsg(2)
//   p  after a batch of reads, the rest of a pause
//   r  a ring of packets, read after each batch
//   u  io_uring in place of e: receives that go on, into buffers of the ring; with p it waits for a pause
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/io_uring.h>
#include <linux/net_tstamp.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 16 << 10, BATCH = 128, FRAMES = 1 << 16, FRAME = 160, BLOCK = 64 << 10, BUFFERS = 1024 };

static int port, connections, requests, sent, ended;
static const char *steps;
static uint64_t pause_ns = 1000000;
static int *fds;
static char request[4096], buffer[BUFFER];
static int request_size;
static long reads;

static int has(char step) { return strchr(steps, step) != NULL; }

static uint64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void check(int bad, const char *what) {
	if (bad) {
		perror(what);
		exit(1);
	}
}

static void make_request(void) {
	char body[2048];
	int size = sprintf(body, "{\"model\":\"m\",\"prompt\":[1");
	for (int i = 2; i <= 64; i++)
		size += sprintf(body + size, ",%d", i);
	size += sprintf(body + size, "],\"max_tokens\":16,\"stream\":%s}", has('w') ? "false" : "true");
	request_size = sprintf(request,
		"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		size, body);
}

static void ask(int fd) {
	sent++;
	check(send(fd, request, request_size, MSG_DONTWAIT | MSG_NOSIGNAL) != request_size, "send");
}

static int dial(void) {
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	int flags = SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE;
	check(connect(fd, (void *)&to, sizeof to), "connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (has('s')) {
		setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags);
		setsockopt(fd, IPPROTO_TCP, TCP_INQ, &on, sizeof on);
	}
	return fd;
}

static char last[1 << 16][5]; // bytes of a connection: an end may come in two reads

// took notes bytes that were read, and sends the next request of a closed loop.
static void took(int fd, const char *bytes, ssize_t n) {
	check(n <= 0, "recv");
	reads++;
	int kept = n < 5 ? 5 - n : 0;
	memmove(last[fd], last[fd] + 5 - kept, kept);
	memcpy(last[fd] + kept, bytes + n - (5 - kept), 5 - kept);
	if (has('w') ? last[fd][4] != '}' : memcmp(last[fd], "0\r\n\r\n", 5))
		return;
	ended++;
	if (sent < requests)
		ask(fd);
}

static void receive(int fd) {
	char control[192];
	struct iovec into = {buffer, sizeof buffer};
	for (ssize_t n = sizeof buffer; n == sizeof buffer;) { // a full one may have left some, of which no event tells
		struct msghdr m = {.msg_iov = &into, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
		n = has('s') ? recvmsg(fd, &m, MSG_DONTWAIT) : recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			return;
		took(fd, buffer, n);
	}
}

static char *ring;
static int frame;

static void open_ring(void) {
	struct sock_filter code[] = {
		{BPF_LD | BPF_H | BPF_ABS, 0, 0, 20}, // the source port, where IPv4's head has no options
		{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, port},
		{BPF_RET | BPF_K, 0, 0, 80},
		{BPF_RET | BPF_K, 0, 0, 0},
	};
	struct sock_fprog program = {4, code};
	struct tpacket_req size = {BLOCK, FRAMES / (BLOCK / FRAME), FRAME, FRAMES / (BLOCK / FRAME) * (BLOCK / FRAME)};
	struct sockaddr_ll all = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	int fd = socket(AF_PACKET, SOCK_DGRAM, 0), on = 1, version = TPACKET_V2;
	check(fd < 0, "a ring");
	setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
	setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version);
	check(setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &size, sizeof size), "a ring");
	ring = mmap(NULL, (size_t)size.tp_block_nr * BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	check(ring == MAP_FAILED || bind(fd, (void *)&all, sizeof all), "a ring");
}

static void read_ring(void) {
	static uint64_t sum;
	const int each = BLOCK / FRAME, frames = FRAMES / each * each;
	for (;; frame = (frame + 1) % frames) {
		struct tpacket2_hdr *h = (void *)(ring + (size_t)(frame / each) * BLOCK + frame % each * FRAME);
		if (!(__atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
			return;
		sum += h->tp_nsec + *(uint32_t *)((char *)h + h->tp_net + 24);
		__atomic_store_n(&h->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	}
}

static void sleep_until(uint64_t at) {
	struct timespec t = {at / 1000000000, at % 1000000000};
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static uint64_t begun;

// send_due sends what is due of a plan, and returns when the next request is.
static uint64_t send_due(void) {
	while (!requests && sent < connections && now() >= begun + sent * 2000000ull)
		ask(fds[sent]);
	return requests || sent == connections ? UINT64_MAX : begun + sent * 2000000ull;
}

static int over(void) { return ended == (requests ? requests : connections); }

static void by_epoll(void) {
	struct epoll_event ready[BATCH];
	int epoll = epoll_create1(0);
	for (int i = 0; i < connections; i++) {
		struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.fd = fds[i]};
		epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &e);
	}
	while (!over()) {
		uint64_t due = send_due(), left = due - now();
		struct timespec wait = {left / 1000000000, left % 1000000000};
		int n = epoll_pwait2(epoll, ready, BATCH, due == UINT64_MAX ? NULL : &wait, NULL);
		uint64_t batch = now();
		for (int i = 0; i < n; i++)
			receive(ready[i].data.fd);
		if (ring)
			read_ring();
		if (has('p') && n < BATCH) {
			uint64_t next = send_due();
			sleep_until(next < batch + pause_ns ? next : batch + pause_ns);
		}
	}
}

static struct io_uring_sqe *sqes;
static struct io_uring_params made;
static char *heads;

static unsigned *at(unsigned offset) { return (unsigned *)(heads + offset); }

static void submit_receive(int fd) {
	unsigned tail = *at(made.sq_off.tail), place = tail & *at(made.sq_off.ring_mask);
	sqes[place] = (struct io_uring_sqe){
		.opcode = IORING_OP_RECV, .fd = fd, .ioprio = IORING_RECV_MULTISHOT, .flags = IOSQE_BUFFER_SELECT, .user_data = fd};
	at(made.sq_off.array)[place] = place;
	__atomic_store_n(at(made.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
}

static void by_uring(void) {
	made.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE;
	made.cq_entries = 4096;
	int fd = syscall(SYS_io_uring_setup, 1024, &made);
	check(fd < 0, "io_uring_setup");
	heads = mmap(NULL, made.cq_off.cqes + made.cq_entries * 16 + made.sq_off.array, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQ_RING);
	sqes = mmap(NULL, made.sq_entries * sizeof *sqes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQES);
	char *memory = malloc(BUFFERS * 4096);
	struct io_uring_buf_ring *buffers = aligned_alloc(4096, BUFFERS * sizeof(struct io_uring_buf));
	struct io_uring_buf_reg reg = {.ring_addr = (uintptr_t)buffers, .ring_entries = BUFFERS};
	check(syscall(SYS_io_uring_register, fd, IORING_REGISTER_PBUF_RING, &reg, 1), "io_uring_register");
	for (int i = 0; i < BUFFERS; i++) {
		buffers->bufs[i].addr = (uintptr_t)memory + i * 4096;
		buffers->bufs[i].len = 4096;
		buffers->bufs[i].bid = i;
	}
	__atomic_store_n(&buffers->tail, BUFFERS, __ATOMIC_RELEASE);
	for (int i = 0; i < connections; i++)
		submit_receive(fds[i]);
	unsigned submit = connections;
	struct io_uring_cqe *cqes = (void *)(heads + made.cq_off.cqes);
	while (!over()) {
		uint64_t due = send_due(), batch = now(), left = due - batch;
		if (has('p') && left > pause_ns)
			left = pause_ns;
		struct __kernel_timespec wait = {left / 1000000000, left % 1000000000};
		struct io_uring_getevents_arg arg = {.ts = left > 1000000000 ? 0 : (uintptr_t)&wait};
		syscall(SYS_io_uring_enter, fd, submit, has('p') ? 2048 : 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg, sizeof arg);
		submit = 0;
		unsigned head = *at(made.cq_off.head), tail = __atomic_load_n(at(made.cq_off.tail), __ATOMIC_ACQUIRE);
		for (; head != tail; head++) {
			struct io_uring_cqe *c = &cqes[head & *at(made.cq_off.ring_mask)];
			int id = c->flags >> IORING_CQE_BUFFER_SHIFT;
			check((errno = c->res < 0 ? -c->res : 0) && errno != ENOBUFS, "a receive");
			if (c->res > 0) {
				took(c->user_data, memory + id * 4096, c->res);
				struct io_uring_buf *b = &buffers->bufs[buffers->tail % BUFFERS];
				b->addr = (uintptr_t)memory + id * 4096;
				b->len = 4096;
				b->bid = id;
				__atomic_store_n(&buffers->tail, buffers->tail + 1, __ATOMIC_RELEASE);
			}
			if (!(c->flags & IORING_CQE_F_MORE)) {
				submit_receive(c->user_data);
				submit++;
			}
		}
		__atomic_store_n(at(made.cq_off.head), head, __ATOMIC_RELEASE);
		if (ring)
			read_ring();
	}
}

int main(int count, char **args) {
	check(count != 5 && count != 6, "usage: bare PORT STEPS CONNECTIONS REQUESTS [PAUSE]");
	port = atoi(args[1]);
	steps = args[2];
	connections = atoi(args[3]);
	requests = atoi(args[4]);
	if (count == 6)
		pause_ns = atof(args[5]) * 1000000;
	prctl(PR_SET_TIMERSLACK, 1);
	make_request();
	fds = calloc(connections, sizeof *fds);
	for (int i = 0; i < connections; i++)
		fds[i] = dial();
	if (has('r'))
		open_ring();
	begun = now();
	for (int i = 0; requests && i < connections; i++)
		ask(fds[i]);
	if (has('u'))
		by_uring();
	else
		by_epoll();
	fprintf(stderr, "%ld reads\n", reads);
	return 0;
}
