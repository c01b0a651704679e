//! Builds and takes down stacks: images, loop devices, mkfs, mount, cgroups; and the journal of what was made.
