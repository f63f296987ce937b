#include "sotto/data/audio/tar_shards.h"

#include <fmt/format.h>

#include <optional>

#include "sotto/core/files/mapped_file.h"

namespace sotto::data {

const TarFile& TarShards::archive_of(const TarMember& member) {
  const std::lock_guard lock(mutex_);
  auto at = archives_.find(member.archive);
  if (at == archives_.end())
    at = archives_.emplace(member.archive, TarFile::open(member.archive)).first;
  return at->second;
}

bool TarShards::contains(const TarMember& member) {
  return archive_of(member).find(member.name).has_value();
}

FilePart TarShards::find(const TarMember& member) {
  const TarFile& archive = archive_of(member);
  const std::optional<FilePart> content = archive.find(member.name);
  if (!content) {
    refuse_file(member.archive, fmt::format("it has no file '{}'", member.name),
                fmt::format("one of its {} files", archive.size()),
                "The manifest belongs to other archives, or these were repacked.");
  }
  return *content;
}

}  // namespace sotto::data
