# A workload in Filebench's language. `loadline check FILE` says what it would do,
# `loadline run FILE --on ext4,xfs` compares file systems under it, `--set nthreads=1,4,16` sweeps a variable.

set $nfiles=1000
set $nthreads=4
set $filesize=64k
set $iosize=4k

# Files that exist before the load begins: 80 % of them.
define fileset name=data, path=/files, entries=$nfiles, size=$filesize, dirwidth=100, prealloc=80

# One process, its threads, and what each thread does again and again.
define process name=server {
  thread name=worker, instances=$nthreads, memsize=1m {
    flowop openfile name=open, filesetname=data, fd=1
    flowop read name=read, fd=1, iosize=$iosize, random
    flowop write name=write, fd=1, iosize=$iosize, random
    flowop fsync name=sync, fd=1
    flowop closefile name=close, fd=1
  }
}

run 10
