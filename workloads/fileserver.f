# A file server in the manner of SPECsfs: home directories that are written, appended to, read, deleted, listed.
# Covers metadata and sequential I/O of whole files in equal parts; many threads over a tree of directories.
# Size: up to 10000 files of 128 KiB on average, at most an eighth of the free space.

set $dir=/tmp
set $filesize=cvar(type=cvar-gamma, parameters=mean:131072;gamma:1.5)
set $nfiles=max(100, min(10000, $free / 8 / 128k))
set $meandirwidth=20
set $nthreads=max(50, $cores * 4)
set $iosize=1m
set $meanappendsize=16k
set $memperthread=10m
set $runtime=60

define fileset name=homes, path=$dir, entries=$nfiles, size=$filesize, dirwidth=$meandirwidth, prealloc=80

define process name=fileserver
{
  thread name=user, instances=$nthreads, memsize=$memperthread
  {
    flowop createfile name=new-create, filesetname=homes, fd=1
    flowop writewholefile name=new-write, iosize=$iosize, srcfd=1, fd=1
    flowop closefile name=new-close, fd=1
    flowop openfile name=append-open, filesetname=homes, fd=1
    flowop appendfilerand name=append, iosize=$meanappendsize, fd=1
    flowop closefile name=append-close, fd=1
    flowop openfile name=read-open, filesetname=homes, fd=1
    flowop readwholefile name=read, iosize=$iosize, fd=1
    flowop closefile name=read-close, fd=1
    flowop deletefile name=delete, filesetname=homes
    flowop statfile name=stat, filesetname=homes
  }
}

run $runtime
