// Unpacks gzip files that are too large for memory: into a file without a name, which the system
// removes when it is no longer used, and which is mapped like any other.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "sotto/core/files/mapped_file.h"

namespace sotto {

// Returns whether bytes begin like a gzip file.
bool is_gzip(std::span<const std::byte> bytes);

// Returns the largest size to which a compressed file may grow: weights hardly shrink, and a small
// file that becomes a huge one is an attack.
int64_t max_unpacked_bytes(int64_t packed_bytes);

// Returns the content of a gzip file. The file without a name is made in TMPDIR, or in /var/tmp.
// `path` is for errors. Throws DataError where the content is truncated, damaged or larger than
// `max_bytes`, or where the disk is full.
MappedFile unpack_gzip(std::span<const std::byte> packed, const std::filesystem::path& path,
                       int64_t max_bytes);

}  // namespace sotto
