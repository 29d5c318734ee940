/* Readers that wait: sends one request on many connections, and says when each answer began to arrive.
 *
 *   waiting_client PORT CONNECTIONS
 *
 * Reads frames (with their size) from standard input. Each is sent on every connection, then a line "sent" is printed,
 * and when all have been answered a line with CLOCK_MONOTONIC in nanoseconds at which each answer's first bytes came.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CONNECTIONS = 1024, MAX_FRAME = 65536 };

struct connection {
    int fd;
    size_t received; /* of the answer, its size included */
    unsigned char size[4];
    long long first_ns;
};

static struct connection all[MAX_CONNECTIONS];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Takes what has come; 1 when the answer is complete. */
static int take(struct connection *c) {
    static char sink[1 << 20];
    for (;;) {
        uint32_t length = 0;
        ssize_t n;
        if (c->received < 4) {
            n = recv(c->fd, c->size + c->received, 4 - c->received, MSG_DONTWAIT);
        } else {
            memcpy(&length, c->size, 4);
            size_t left = 4 + (size_t)ntohl(length) - c->received;
            if (left == 0) return 1;
            n = recv(c->fd, sink, left < sizeof sink ? left : sizeof sink, MSG_DONTWAIT);
        }
        if (n < 0 && errno == EAGAIN) return 0;
        if (n <= 0) fail("recv");
        if (c->received == 0) c->first_ns = now_ns();
        c->received += (size_t)n;
    }
}

static int read_frame(unsigned char *frame, size_t *bytes) {
    if (fread(frame, 1, 4, stdin) != 4) return 0;
    uint32_t length;
    memcpy(&length, frame, 4);
    *bytes = 4 + (size_t)ntohl(length);
    return *bytes <= MAX_FRAME && fread(frame + 4, 1, *bytes - 4, stdin) == *bytes - 4;
}

int main(int count, char **arguments) {
    int connections = count == 3 ? atoi(arguments[2]) : 0;
    if (connections < 1 || connections > MAX_CONNECTIONS) {
        fprintf(stderr, "usage: waiting_client PORT CONNECTIONS (1..%d)\n", MAX_CONNECTIONS);
        return 2;
    }
    int epoll_fd = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(arguments[1])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < connections; i++) {
        all[i].fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(all[i].fd, (struct sockaddr *)&address, sizeof address) < 0) fail("connect");
        int one = 1;
        setsockopt(all[i].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, all[i].fd, &event) < 0) fail("epoll_ctl");
    }
    static unsigned char frame[MAX_FRAME];
    size_t bytes;
    while (read_frame(frame, &bytes)) {
        for (int i = 0; i < connections; i++) {
            all[i].received = 0;
            if (send(all[i].fd, frame, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) fail("send");
        }
        printf("sent\n");
        fflush(stdout);
        struct epoll_event ready[256];
        for (int answered = 0; answered < connections;) {
            int n = epoll_wait(epoll_fd, ready, 256, 30000);
            if (n <= 0) fail("no answer");
            for (int i = 0; i < n; i++) answered += take(ready[i].data.ptr);
        }
        for (int i = 0; i < connections; i++) printf("%lld ", all[i].first_ns);
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
