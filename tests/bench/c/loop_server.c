/* The reference for serving: the least a server can do per fetch.
 *
 * An epoll loop that answers each length-prefixed request with a fixed header and the next `chunk` bytes of a file,
 * by sendmsg from a mapping ("mmap") or by sendfile ("sendfile"). It prints its port and serves until it is killed.
 *
 *   loop_server mmap|sendfile FILE REGION_BYTES CHUNK_BYTES HEADER_BYTES
 *
 * REGION_BYTES is how much of the file it goes round.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MAX_FD = 4096, REQUEST_BYTES = 65536, MAX_HEADER = 4096 };

struct connection {
    int fd;
    size_t received;      /* bytes of the request that have come so far */
    size_t header_left;   /* of the answer under way */
    size_t chunk_left;
    off_t position;       /* in the file, of the next byte to send */
    unsigned char request[REQUEST_BYTES];
};

static struct connection *connections[MAX_FD];
static unsigned char header[MAX_HEADER];
static size_t header_bytes, chunk_bytes, file_bytes;
static unsigned char *mapping;
static int file_fd, epoll_fd, use_sendfile;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void drop(struct connection *c) {
    connections[c->fd] = NULL;
    close(c->fd);
    free(c);
}

static void watch(struct connection *c, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = c->fd};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &event) < 0) fail("epoll_ctl");
}

/* Sends what is left of the answer: 1 = all gone, 0 = the socket is full, -1 = the peer is gone. */
static int send_rest(struct connection *c) {
    while (c->header_left || c->chunk_left) {
        ssize_t n;
        if (use_sendfile && !c->header_left) {
            n = sendfile(c->fd, file_fd, &c->position, c->chunk_left);
            if (n > 0) {
                c->chunk_left -= (size_t)n;
                continue;
            }
        } else if (use_sendfile) {
            n = send(c->fd, header + header_bytes - c->header_left, c->header_left, MSG_MORE | MSG_NOSIGNAL);
        } else {
            struct iovec parts[2] = {{header + header_bytes - c->header_left, c->header_left},
                                     {mapping + c->position, c->chunk_left}};
            struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
            n = sendmsg(c->fd, &message, MSG_NOSIGNAL);
        }
        if (n < 0) return errno == EAGAIN ? 0 : -1;
        size_t of_header = (size_t)n < c->header_left ? (size_t)n : c->header_left;
        c->header_left -= of_header;
        c->chunk_left -= (size_t)n - of_header;
        c->position += (off_t)((size_t)n - of_header);
    }
    return 1;
}

static void on_event(struct connection *c, uint32_t events) {
    if (events & EPOLLOUT) {
        int sent = send_rest(c);
        if (sent < 0) return drop(c);
        if (sent == 0) return;
        watch(c, EPOLLIN);
    }
    ssize_t n = recv(c->fd, c->request + c->received, REQUEST_BYTES - c->received, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return drop(c);
    c->received += (size_t)n;
    while (c->received >= 4) {
        uint32_t length;
        memcpy(&length, c->request, 4);
        size_t whole = 4 + (size_t)ntohl(length);
        if (whole > REQUEST_BYTES) return drop(c);
        if (c->received < whole) return;
        memmove(c->request, c->request + whole, c->received - whole);
        c->received -= whole;
        if ((size_t)c->position + chunk_bytes > file_bytes) c->position = 0;
        c->header_left = header_bytes;
        c->chunk_left = chunk_bytes;
        int sent = send_rest(c);
        if (sent < 0) return drop(c);
        if (sent == 0) return watch(c, EPOLLOUT);
    }
}

int main(int count, char **arguments) {
    if (count != 6) {
        fprintf(stderr, "usage: loop_server mmap|sendfile FILE REGION_BYTES CHUNK_BYTES HEADER_BYTES\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN); /* sendfile has no MSG_NOSIGNAL */
    use_sendfile = strcmp(arguments[1], "sendfile") == 0;
    file_fd = open(arguments[2], O_RDONLY);
    if (file_fd < 0) fail("open");
    struct stat status;
    if (fstat(file_fd, &status) < 0) fail("fstat");
    file_bytes = strtoull(arguments[3], NULL, 10);
    if (file_bytes > (size_t)status.st_size) file_bytes = (size_t)status.st_size;
    chunk_bytes = strtoull(arguments[4], NULL, 10);
    header_bytes = strtoull(arguments[5], NULL, 10);
    if (chunk_bytes > file_bytes || header_bytes < 4 || header_bytes > MAX_HEADER) {
        fprintf(stderr, "loop_server: the chunk must fit the region, the header 4..%d bytes\n", MAX_HEADER);
        return 2;
    }
    uint32_t length = htonl((uint32_t)(header_bytes - 4 + chunk_bytes));
    memcpy(header, &length, 4);
    mapping = mmap(NULL, file_bytes, PROT_READ, MAP_SHARED, file_fd, 0);
    if (mapping == MAP_FAILED) fail("mmap");

    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, size) < 0) fail("bind");
    if (listen(listener, 512) < 0) fail("listen");
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);

    epoll_fd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, ready[256];
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &event) < 0) fail("epoll_ctl");
    for (;;) {
        int n = epoll_wait(epoll_fd, ready, 256, -1);
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            if (fd == listener) {
                int accepted = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                if (accepted < 0) continue;
                if (accepted >= MAX_FD) {
                    close(accepted);
                    continue;
                }
                int one = 1;
                setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                struct connection *c = calloc(1, sizeof *c);
                c->fd = accepted;
                connections[accepted] = c;
                event.events = EPOLLIN;
                event.data.fd = accepted;
                if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, accepted, &event) < 0) fail("epoll_ctl");
            } else if (connections[fd]) {
                on_event(connections[fd], ready[i].events);
            }
        }
    }
}
