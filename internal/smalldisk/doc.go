// Package smalldisk gives tests a small file system of the kernel, which can really be filled to the last byte. Only Linux has it.
package smalldisk
