// An event file of TensorBoard: numbers of steps under names. A record of it is its length, the
// checksum of that, a message, and the checksum of this; it is there whole, or it is the last and a
// crash cut it short, which readers pass over.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "sotto/core/files/output_file.h"
#include "sotto/core/formats/event_message.h"

namespace sotto {

class EventFile {
 public:
  // Begins a file of its own in the folder, events.out.tfevents.SECONDS.NUMBER, behind those that
  // are there. What they say of `first_step` and later steps is void from then on. Throws DataError
  // where it cannot be written.
  static EventFile begin(const std::filesystem::path& folder, int64_t first_step);

  const std::filesystem::path& path() const { return path_; }

  // Throws DataError where they do not fit on the disk; the file is then as before, and the next
  // may fit.
  void add(int64_t step, std::span<const Scalar> scalars);

 private:
  explicit EventFile(std::filesystem::path path);

  void append_record(std::string_view message);

  std::filesystem::path path_;
  OutputFile file_;
  // Bytes of whole records.
  int64_t size_ = 0;
};

}  // namespace sotto
