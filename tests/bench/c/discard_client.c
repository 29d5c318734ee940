/* A raw reader that discards: asks the prepared requests in turn, one outstanding per connection, and throws the
 * answers away inside the kernel (MSG_TRUNC), so that the server is what is measured.
 *
 *   discard_client PORT REQUESTS_FILE CONNECTIONS SECONDS
 *
 * REQUESTS_FILE holds complete frames, one after the other; each connection goes round them from a place of its own.
 * Prints "responses bytes seconds".
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CONNECTIONS = 1024, MAX_REQUESTS = 65536 };

struct connection {
    int fd;
    size_t next;            /* index of the next request */
    size_t length_received; /* of the 4 length bytes */
    uint64_t left;          /* bytes of the answer still to come */
    unsigned char length[4];
};

static unsigned char *requests[MAX_REQUESTS];
static size_t request_bytes[MAX_REQUESTS], request_count;
static unsigned long long responses, bytes;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void ask(struct connection *c) {
    size_t i = c->next++ % request_count;
    if (send(c->fd, requests[i], request_bytes[i], MSG_NOSIGNAL) != (ssize_t)request_bytes[i]) fail("send");
    c->length_received = 0;
}

static void on_readable(struct connection *c) {
    for (;;) {
        ssize_t n;
        if (c->length_received < 4) {
            n = recv(c->fd, c->length + c->length_received, 4 - c->length_received, MSG_DONTWAIT);
            if (n > 0) {
                c->length_received += (size_t)n;
                if (c->length_received == 4) {
                    uint32_t length;
                    memcpy(&length, c->length, 4);
                    c->left = ntohl(length);
                }
            }
        } else {
            n = recv(c->fd, NULL, c->left < (1u << 30) ? c->left : (1u << 30), MSG_TRUNC | MSG_DONTWAIT);
            if (n > 0) {
                c->left -= (uint64_t)n;
                bytes += (unsigned long long)n;
            }
        }
        if (n < 0 && errno == EAGAIN) return;
        if (n == 0) {
            fprintf(stderr, "discard_client: the server closed the connection\n");
            exit(1);
        }
        if (n < 0) fail("recv");
        if (c->length_received == 4 && c->left == 0) {
            responses++;
            ask(c);
            return;
        }
    }
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int count, char **arguments) {
    if (count != 5) {
        fprintf(stderr, "usage: discard_client PORT REQUESTS_FILE CONNECTIONS SECONDS\n");
        return 2;
    }
    int connections = atoi(arguments[3]);
    double seconds = atof(arguments[4]);
    int file = open(arguments[2], O_RDONLY);
    struct stat status;
    if (file < 0 || fstat(file, &status) < 0) fail("open");
    unsigned char *frames = malloc((size_t)status.st_size);
    if (read(file, frames, (size_t)status.st_size) != status.st_size) fail("read");
    for (off_t at = 0; at < status.st_size && request_count < MAX_REQUESTS;) {
        uint32_t length;
        memcpy(&length, frames + at, 4);
        requests[request_count] = frames + at;
        request_bytes[request_count] = 4 + (size_t)ntohl(length);
        at += (off_t)request_bytes[request_count++];
    }
    if (request_count == 0 || connections < 1 || connections > MAX_CONNECTIONS) {
        fprintf(stderr, "discard_client: no requests, or not 1..%d connections\n", MAX_CONNECTIONS);
        return 2;
    }
    static struct connection all[MAX_CONNECTIONS];
    int epoll_fd = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(arguments[1])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    /* The kernel begins a connection with what it learned of the last one between the same two addresses (see
     * `ip tcp_metrics`), a round trip of milliseconds for one, by which BBR paces the server. So each run comes from
     * an address of its own, where the system has more than one for itself. */
    srand((unsigned)(getpid() ^ time(NULL)));
    struct sockaddr_in source = {.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(0x7f000000u | ((unsigned)rand() % 0xfffffeu + 1))};
    for (int i = 0; i < connections; i++) {
        struct connection *c = &all[i];
        c->fd = socket(AF_INET, SOCK_STREAM, 0);
        (void)bind(c->fd, (struct sockaddr *)&source, sizeof source);
        if (connect(c->fd, (struct sockaddr *)&address, sizeof address) < 0) fail("connect");
        int one = 1;
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        c->next = request_count * (size_t)i / (size_t)connections;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event) < 0) fail("epoll_ctl");
    }
    double start = now(), end = start + seconds;
    for (int i = 0; i < connections; i++) ask(&all[i]);
    struct epoll_event ready[256];
    while (now() < end) {
        int n = epoll_wait(epoll_fd, ready, 256, 100);
        for (int i = 0; i < n; i++) on_readable(ready[i].data.ptr);
    }
    printf("%llu %llu %.6f\n", responses, bytes, now() - start);
    return 0;
}
