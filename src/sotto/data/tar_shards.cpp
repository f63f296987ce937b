#include "sotto/data/tar_shards.h"

#include <fmt/format.h>

#include <optional>

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

std::span<const std::byte> TarShards::find(const TarMember& member) {
  const TarFile& archive = archive_of(member);
  const std::optional<std::span<const std::byte>> bytes = archive.find(member.name);
  if (!bytes) {
    refuse_file(member.archive, fmt::format("no file '{}' in it", member.name),
                fmt::format("it to be one of its {}", archive.size()),
                "The manifest is of other archives, or these were packed anew.");
  }
  return *bytes;
}

}  // namespace sotto::data
