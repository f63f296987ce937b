// The tar archives that utterances lie in, each opened and indexed when it is first asked for and
// kept from then on: 16 bytes per file, and a descriptor per archive.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>

#include "sotto/core/formats/tar_reader.h"
#include "sotto/data/audio/audio_path.h"

namespace sotto::data {

class TarShards {
 public:
  // Where the content of a file lies, as long as this lives. Throws DataError where the archive
  // cannot be read or there is no such file in it. May be called from several threads at once.
  FilePart find(const TarMember& member);
  // Whether there is such a file. Throws DataError where the archive cannot be read.
  bool contains(const TarMember& member);

 private:
  const TarFile& archive_of(const TarMember& member);

  // Only the look-up is locked; an archive does not change once it is there.
  std::mutex mutex_;
  std::map<std::filesystem::path, TarFile> archives_;
};

}  // namespace sotto::data
