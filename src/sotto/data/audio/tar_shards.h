// The tar archives that contain utterances, each opened and indexed on first use and kept open: 16
// bytes per file, and a descriptor per archive.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>

#include "sotto/core/formats/tar_reader.h"
#include "sotto/data/audio/audio_path.h"

namespace sotto::data {

class TarShards {
 public:
  // Returns the content of a file, valid while this object lives. Throws DataError if the
  // archive cannot be read or has no such file. Thread-safe.
  FilePart find(const TarMember& member);
  // Returns whether there is such a file. Throws DataError if the archive cannot be read.
  bool contains(const TarMember& member);

 private:
  const TarFile& archive_of(const TarMember& member);

  // Guards only the look-up; an archive does not change once it is opened.
  std::mutex mutex_;
  std::map<std::filesystem::path, TarFile> archives_;
};

}  // namespace sotto::data
