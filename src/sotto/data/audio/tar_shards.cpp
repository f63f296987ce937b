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
    refuse_file(member.archive, fmt::format("no file '{}' in it", member.name),
                fmt::format("it to be one of its {}", archive.size()),
                "The manifest is of other archives, or these were packed anew.");
  }
  return *content;
}

}  // namespace sotto::data
