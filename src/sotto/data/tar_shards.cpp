#include "sotto/data/tar_shards.h"

#include <fmt/format.h>

#include <optional>

namespace sotto::data {

std::span<const std::byte> TarShards::find(const TarMember& member) {
  const TarFile* archive = nullptr;
  {
    const std::lock_guard lock(mutex_);
    auto at = archives_.find(member.archive);
    if (at == archives_.end())
      at = archives_.emplace(member.archive, TarFile::open(member.archive)).first;
    archive = &at->second;
  }
  const std::optional<std::span<const std::byte>> bytes = archive->find(member.name);
  if (!bytes) {
    refuse_file(member.archive, fmt::format("no file '{}' in it", member.name),
                fmt::format("it to be one of its {}", archive->size()),
                "The manifest is of other archives, or these were packed anew.");
  }
  return *bytes;
}

}  // namespace sotto::data
