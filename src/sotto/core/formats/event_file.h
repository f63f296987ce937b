// Writes a TensorBoard event file: named scalars per step. A record consists of its length, the
// checksum of the length, a message, and the checksum of the message. Every record is complete
// except possibly the last, which a crash may truncate and which readers skip.
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
  // Creates a new file in the folder, events.out.tfevents.SECONDS.NUMBER, sorted after the existing
  // ones. Their values for `first_step` and later steps become void. Throws DataError where it
  // cannot be written.
  static EventFile begin(const std::filesystem::path& folder, int64_t first_step);

  const std::filesystem::path& path() const { return path_; }

  // Adds scalars of a step. Throws DataError where they do not fit on the disk; the file is then
  // unchanged, and the next call may succeed.
  void add(int64_t step, std::span<const Scalar> scalars);

 private:
  explicit EventFile(std::filesystem::path path);

  void append_record(std::string_view message);

  std::filesystem::path path_;
  OutputFile file_;
  // Total bytes of complete records.
  int64_t size_ = 0;
};

}  // namespace sotto
