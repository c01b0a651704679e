/* A program of random system calls, drawn from a seed. It prints what each of them returned: under the library it must
   print the same. Usage: calls SEED DIRECTORY [STEPS LEFT]; DIRECTORY holds `big` (4 MiB) and part-00000 to part-00015. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <grp.h>

enum { FIRST = 3, LAST = 30, STEPS = 60, BIG = 4 << 20, BLOCK = 65536 };
static uint64_t state;
static char block[BLOCK];
static const char *depth = "";

static unsigned below(unsigned limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % limit;
}
static int descriptor(void) { return FIRST + (int)below(LAST - FIRST); }
static void tell(const char *call, long result) {
    int failed = errno;
    char line[200];
    int len = snprintf(line, sizeof line, "%s%s %ld %d\n", depth, call, result, result < 0 ? failed : 0);
    if (write(1, line, len) != len) _exit(9);
}
static unsigned sum(long length) {
    unsigned value = 0;
    for (long at = 0; at < length; at++) value = value * 31 + (unsigned char)block[at];
    return value;
}
static void reads(int fd, int steps) {
    long first = below(BIG), step = (long)below(3 * BLOCK) - BLOCK, length = below(BLOCK);
    for (int i = 0; i < steps; i++) {
        errno = 0;
        long got = pread(fd, block, length, first + i * step);
        tell("pread", got);
        tell("  sum", sum(got));
    }
}
static void *reader(void *argument) {
    static char own[BLOCK];
    long fd = (long)argument, total = 0;
    for (int i = 0; i < 64; i++) total += pread((int)fd, own, BLOCK, BIG - (i + 1) * BLOCK);
    return (void *)total;
}
static long tasks(void) {
    struct stat stat;
    return syscall(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &stat, 0) ? -1 : (long)stat.st_nlink;
}
static void threads(int fd) {
    long before = tasks();
    pthread_t thread;
    void *total = 0;
    if (pthread_create(&thread, 0, reader, (void *)(long)fd)) return tell("thread", -1);
    setresuid(-1, geteuid(), -1);
    pthread_join(thread, &total);
    /* The kernel counts it a little longer. */
    while (tasks() > before) sched_yield();
    tell("thread", (long)total);
}
static int ended(pid_t child) {
    int status = -1;
    waitpid(child, &status, __WALL);
    return status;
}
static void step(void);
static void in_child(int steps) {
    depth = "    ";
    for (int i = 0; i < steps; i++) step();
    _exit(0);
}
static int filter(unsigned flags, int by_prctl) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_readahead, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fstat, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_preadv2, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 451, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    if (by_prctl) return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}
static int nobody[] = {-1, 0, 1000, 65534};
static unsigned id(void) { return (unsigned)nobody[below(4)]; }
static long capabilities(void) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    memset(data, 0, sizeof data);
    if (syscall(SYS_capget, &head, data)) return -1;
    data[0].effective &= ~below(1 << 30);
    return syscall(SYS_capset, &head, data);
}
static void by_name(void) {
    char path[40];
    int from = (int)below(12), count = 2 + (int)below(6), step = 1 + (int)below(2);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "part-%05d", from + i * step);
        errno = 0;
        int fd = open(path, O_RDONLY);
        tell("open", fd);
        while (fd >= 0) {
            long got = read(fd, block, BLOCK / 2);
            tell("  read", got);
            if (got <= 0) break;
        }
        if (fd >= 0) tell("close", close(fd));
    }
}
static void by_stream(void) {
    FILE *file = below(2) ? fopen("big", "r") : fmemopen(block, 300, "r");
    char *line = 0, part[200];
    size_t size = 0;
    if (!file) return tell("fopen", -1);
    for (int i = 0; i < 8; i++) {
        errno = 0;
        switch (below(3)) {
        case 0: tell("fread", (long)fread(part, 1, sizeof part, file)); break;
        case 1: tell("getline", getdelim(&line, &size, 7, file)); break;
        default: tell("fseek", fseek(file, below(BIG), SEEK_SET)); break;
        }
        tell("  errno", errno);
    }
    tell("fclose", fclose(file));
    free(line);
}
static void step(void) {
    int fd = descriptor(), other = descriptor();
    errno = 0;
    switch (below(30)) {
    case 0: case 1: case 2: return tell("open", open("big", below(2) ? O_RDONLY : O_RDWR));
    case 3: case 4: case 5: case 6: return reads(fd, 4 + (int)below(40));
    case 7: return tell("read", read(fd, block, below(BLOCK)));
    case 8: return tell("lseek", lseek(fd, below(BIG), SEEK_SET));
    case 9: return tell("dup", dup(fd));
    case 10: return tell("dup2", dup2(fd, other));
    case 11: return tell("dup3", dup3(fd, other, O_CLOEXEC));
    case 12: return tell("close", close(fd));
    case 13: return tell("close_range", close_range(fd, fd + below(8), below(2) ? 0 : CLOSE_RANGE_CLOEXEC));
    case 14: return tell("fadvise", posix_fadvise(fd, below(BIG), below(BIG), (int)below(7)));
    case 15: {
        int flags = fcntl(fd, F_GETFL);
        tell("getfl", flags);
        return tell("setfl", flags < 0 ? -1 : fcntl(fd, F_SETFL, flags ^ O_DIRECT));
    }
    case 16: return threads(fd);
    case 17: {
        pid_t child = fork();
        if (child == 0) in_child((int)below(10));
        return tell("fork", ended(child));
    }
    case 18: {
        pid_t child = vfork();
        if (child == 0) {
            close_range(FIRST, ~0u, 0);
            _exit(3);
        }
        return tell("vfork", ended(child));
    }
    case 19: {
        pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0) in_child((int)below(10));
        return tell("clone", ended(child));
    }
    case 20: {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = below(BIG), .l_len = below(BIG)};
        return tell("lock", fcntl(fd, F_SETLK, &lock));
    }
    case 21: return by_name();
    case 22: return by_stream();
    case 23: {
        char *map = mmap(0, BLOCK, PROT_READ, MAP_SHARED, fd, below(16) * BLOCK);
        if (map == MAP_FAILED) return tell("mmap", -1);
        memcpy(block, map, 100);
        tell("mmap", (long)sum(100));
        madvise(map, BLOCK, (int)below(5));
        return tell("munmap", munmap(map, BLOCK));
    }
    case 24:
        switch (below(9)) {
        case 0: return tell("setuid", setuid(id()));
        case 1: return tell("setresuid", setresuid(id(), id(), id()));
        case 2: return tell("setreuid", setreuid(id(), id()));
        case 3: return tell("setgid", setgid(id()));
        case 4: return tell("setresgid", setresgid(id(), id(), id()));
        case 5: return tell("setgroups", setgroups(0, 0));
        case 6: return tell("seteuid", seteuid(id()));
        case 7: return tell("capset", capabilities());
        default: return tell("keepcaps", prctl(PR_SET_KEEPCAPS, below(2), 0, 0, 0));
        }
    case 25: return tell("unshare", unshare(CLONE_FILES | (below(2) ? CLONE_FS : 0)));
    case 26:
        if (below(4)) return tell("tsc", prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0));
        return tell("filter", filter(below(2) ? SECCOMP_FILTER_FLAG_TSYNC : 0, (int)below(2)));
    case 27: return tell("readahead", readahead(fd, below(BIG), below(BIG)));
    case 28: {
        long position = below(BIG);
        return tell("copy", syscall(SYS_copy_file_range, fd, &position, other, 0, 0, 0));
    }
    default: {
        /* Who is this, and is anybody else here? */
        unsigned a, b, c;
        getresuid(&a, &b, &c);
        tell("ids", (long)(a * 7 + b * 3 + c));
        return tell("threads", tasks());
    }
    }
}
/* Out of the page cache, so that there is something to prefetch. */
static void drop(void) {
    int fd = open("big", O_RDONLY);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}
int main(int count, char **words) {
    if (count < 3 || chdir(words[2])) return 2;
    if (count == 3) drop();
    state = strtoull(words[1], 0, 10) * 0x9e3779b97f4a7c15u + 1;
    int left = count > 3 ? atoi(words[3]) : STEPS;
    for (; left > 0; left--) {
        if (below(40)) {
            step();
            continue;
        }
        /* The rest is another program's. */
        char seed[30], rest[30];
        snprintf(seed, sizeof seed, "%u", below(1u << 30));
        snprintf(rest, sizeof rest, "%d", left - 1);
        tell("exec", 0);
        execl("/proc/self/exe", words[0], seed, ".", rest, (char *)0);
        tell("exec failed", -1);
    }
    return 0;
}
