/* Programs that would notice a library of threads, or one that makes calls of its own at the wrong time. Each prints what it
   saw; under the library it must print the same. Usage: cases CASE FILE [COUNT]; FILE has 64 MiB and is not in the cache. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECE = 65536, READERS = 3 };
static const char *path;
static volatile int going = 1;

static void drop(void) {
    int fd = open(path, O_RDONLY);
    fsync(fd);
    syscall(SYS_fadvise64, fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}
/* Backwards: what is prefetched. */
static void backward(int fd, int from, int to) {
    static __thread char piece[PIECE];
    for (int at = from; at < to; at++) {
        if (pread(fd, piece, PIECE, (64L << 20) - (at + 1) * (long)PIECE) != PIECE) printf("short read\n");
    }
}
static void *reader(void *argument) {
    int fd = open(path, O_RDONLY);
    while (going) {
        for (int at = 0; at < 512 && going; at += 64) backward(fd, at, at + 64);
        if (!argument) drop();
    }
    close(fd);
    return 0;
}
/* How many threads there are, and in how many of them one of these lines of their status is not like in this one. */
static void tasks(int *threads, int *others) {
    static const char *fields[] = {"Uid:", "Gid:", "Groups:", "CapEff:", "CapPrm:", "NoNewPrivs:", "Seccomp:"};
    char own[7][256] = {{0}}, line[256], name[300];
    for (int self = 1; self >= 0; self--) {
        DIR *all = opendir("/proc/self/task");
        for (struct dirent *one; (one = readdir(all));) {
            if (one->d_name[0] == '.' || self != (atoi(one->d_name) == (int)syscall(SYS_gettid))) continue;
            snprintf(name, sizeof name, "/proc/self/task/%s/status", one->d_name);
            FILE *status = fopen(name, "r");
            int differs = 0;
            while (status && fgets(line, sizeof line, status))
                for (int i = 0; i < 7; i++) {
                    if (strncmp(line, fields[i], strlen(fields[i]))) continue;
                    if (self) strcpy(own[i], line);
                    else differs |= strcmp(own[i], line) != 0;
                }
            if (status) fclose(status);
            *threads += 1;
            *others += differs;
        }
        closedir(all);
    }
}
static long capabilities(void) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &head, data)) return -1;
    data[0].effective = 0;
    return syscall(SYS_capset, &head, data);
}
static int filter(int by_prctl) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fstat, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_readahead, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 451, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    if (by_prctl) return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}
/* Each call that changes what a process may do, beside readers, in a child that is this program again; threads and their
   rights are counted after it. Only libc's calls reach all threads; what concerns one thread is made without readers. */
static long change(int call) {
    switch (call) {
    case 0: return setresuid(-1, 65534, -1);
    case 1: return setreuid(-1, 65534);
    case 2: return seteuid(65534);
    case 3: return setuid(65534);
    case 4: return setresgid(-1, 65534, -1);
    case 5: return setregid(-1, 65534);
    case 6: return setegid(65534);
    case 7: return setgid(65534);
    case 8: return setgroups(0, 0);
    case 9: return initgroups("nobody", 65534);
    case 10: return filter(0);
    /* Of this thread alone. */
    case 11: return capabilities();
    case 12: return setfsuid(65534) < 0;
    case 13: return setfsgid(65534) < 0;
    case 14: return prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
    case 15: return prctl(PR_SET_SECUREBITS, 0, 0, 0, 0);
    case 16: return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    case 17: return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    case 18: return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) | filter(1);
    case 19: return unshare(CLONE_NEWUSER);
    case 20: return chroot("/");
    case 21: return syscall(SYS_setresuid, -1, 65534, -1);
    default: return syscall(SYS_setgroups, 0, 0);
    }
}
enum { CHANGES = 23, ALONE = 11 };
static void rights(int count) {
    for (int round = 0; round < count; round++) {
        int call = round % CHANGES, threads = 0, others = 0, own = 1;
        if (round % 16 == 0) drop();
        pid_t child = fork();
        if (child == 0) {
            pthread_t all[READERS];
            int fd = open(path, O_RDONLY);
            backward(fd, 0, 24);
            if (call < ALONE) {
                for (long i = 0; i < READERS; i++) pthread_create(&all[i], 0, reader, (void *)(i + 1));
                own += READERS;
                backward(fd, 24, 48);
            }
            long changed = change(call);
            tasks(&threads, &others);
            going = 0;
            if (changed || threads != own || others) {
                printf("call %d: returned %ld, %d threads instead of %d, %d of them with other rights\n", call, changed, threads, own, others);
                fflush(stdout);
            }
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (status) printf("call %d: ended by %d\n", call, status);
    }
}
static void count_tasks(void) {
    int threads = 0, others = 0;
    tasks(&threads, &others);
    printf("%d threads, %d with other rights\n", threads, others);
}
static int ends[2];
static void *waiting(void *none) {
    char byte;
    (void)none;
    if (read(ends[0], &byte, 1) == 1 && read(ends[0], &byte, 1) == 1) printf("the reader lives\n");
    return 0;
}
static void filtered_while_reading(void) {
    pthread_t thread;
    if (pipe(ends) || write(ends[1], "x", 1) != 1) return;
    pthread_create(&thread, 0, waiting, 0);
    usleep(50000);
    printf("filter %d\n", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) | filter(0));
    if (write(ends[1], "x", 1) == 1) pthread_join(thread, 0);
}
static void without_libc(void) {
    int fd = open(path, O_RDONLY);
    backward(fd, 0, 256);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        alarm(2);
        _exit(setgid(getgid()) | setuid(getuid()) | filter(1));
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("the child ended with %d\n", status);
}
static void lines(void) {
    char text[] = "one\ntwo\n", *line = 0;
    size_t size = 0;
    FILE *file = fmemopen(text, 8, "r");
    for (;;) {
        errno = 0;
        if (getline(&line, &size, file) < 0) break;
        printf("a line\n");
    }
    printf("errno at the end %d\n", errno);
    free(line);
    fclose(file);
}
static int cached(int fd) {
    void *map = mmap(0, 4 << 20, PROT_READ, MAP_SHARED, fd, 0);
    unsigned char pages[1024];
    int count = 0;
    mincore(map, 4 << 20, pages);
    for (int i = 0; i < 1024; i++) count += pages[i] & 1;
    munmap(map, 4 << 20);
    return count;
}
static void advice(void) {
    static char piece[PIECE];
    int fd = open(path, O_RDONLY);
    while (read(fd, piece, PIECE) > 0) {}
    printf("%d pages\n", cached(fd));
    printf("DONTNEED %d\n", posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    printf("%d pages\n", cached(fd));
    for (int kind = -1; kind < 8; kind++) {
        printf("advice %d: %d ", kind, posix_fadvise(fd, 0, 0, kind));
        printf("%d ", posix_fadvise(fd, 0, -1, kind));
        printf("%d\n", posix_fadvise(999, 0, 0, kind));
    }
}
static long read_bytes(void) {
    char line[128];
    long bytes = -1;
    FILE *file = fopen("/proc/self/io", "r");
    while (file && fgets(line, sizeof line, file)) sscanf(line, "read_bytes: %ld", &bytes);
    if (file) fclose(file);
    return bytes;
}
/* After O_DIRECT was set, the device reads what the program reads, and nothing else. */
static void direct(void) {
    int fd = open(path, O_RDONLY);
    char *piece = aligned_alloc(4096, PIECE);
    backward(fd, 0, 8);
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_DIRECT)) { printf("no O_DIRECT\n"); return; }
    long before = read_bytes();
    for (int at = 400; at < 600; at++)
        if (pread(fd, piece, PIECE, (64L << 20) - (at + 1) * (long)PIECE) != PIECE) printf("short read\n");
    printf("%ld bytes more than asked for\n", read_bytes() - before - 200L * PIECE);
}
static void counter(void) {
    int fd = open(path, O_RDONLY);
    printf("tsc %d\n", prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0));
    backward(fd, 0, 512);
    printf("read\n");
}
int main(int count, char **words) {
    if (count < 3) return 2;
    path = words[2];
    const char *what = words[1];
    setvbuf(stdout, 0, _IOLBF, 0);
    int fd = open(path, O_RDONLY);
    if (!strcmp(what, "rights")) rights(atoi(words[3]));
    else if (!strcmp(what, "threads")) backward(fd, 0, 600), count_tasks();
    else if (!strcmp(what, "filter")) filtered_while_reading();
    else if (!strcmp(what, "clone")) without_libc();
    else if (!strcmp(what, "getline")) lines();
    else if (!strcmp(what, "advice")) advice();
    else if (!strcmp(what, "direct")) direct();
    else if (!strcmp(what, "counter")) counter();
    else return 3;
    return 0;
}
