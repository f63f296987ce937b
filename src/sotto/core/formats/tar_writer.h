// The parts of a tar archive (ustar) around the files in it, for writing one piece by piece.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sotto {

// Returns the header of a regular file. Names have at most 100 bytes.
std::string tar_file_header(std::string_view name, uint64_t size);
// Returns the zeros that follow a file of this size.
std::string tar_padding(uint64_t size);
// Returns the end of an archive.
std::string tar_end_blocks();

}  // namespace sotto
