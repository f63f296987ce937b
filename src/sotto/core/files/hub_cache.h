// Models that Hugging Face's tools have downloaded to this machine. Nothing is downloaded here: a
// missing model is an error that shows the command to download it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace sotto {

// Returns whether a text is a model id, "org/name" or "org/name@revision", and not an existing
// path.
bool is_hub_id(std::string_view text);

// Returns whether a text is a valid repository name, "org/name", regardless of what exists on this
// machine.
bool is_hub_repository(std::string_view text);

// Returns the id, "org/name", of a model folder that find_hub_folder() returned; std::nullopt for
// other paths.
std::optional<std::string> hub_id_of(const std::filesystem::path& folder);

// Returns the path of the local cache, which need not exist: HF_HUB_CACHE, or hub in HF_HOME, or
// huggingface/hub in XDG_CACHE_HOME or ~/.cache.
std::filesystem::path hub_folder();

// Returns the folder of a model in the local cache. A revision is a branch, a tag or a commit; the
// default is main. Throws DataError where the model or the revision is not in the cache.
std::filesystem::path find_hub_folder(std::string_view id);

}  // namespace sotto
