// Models that Hugging Face's tools have downloaded to this machine. Nothing is fetched here: a
// model that is not there is an error with the line that fetches it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace sotto {

// Whether a text is the id of a model, "org/name" or "org/name@revision", and not the path of
// something that is there.
bool is_hub_id(std::string_view text);

// Whether a text can be the name of a repository, "org/name", whatever is there on this machine.
bool is_hub_repository(std::string_view text);

// The id, "org/name", of a model whose folder find_hub_folder() returned; none where the path is no
// such folder.
std::optional<std::string> hub_id_of(const std::filesystem::path& folder);

// The folder of a model in the local cache: HF_HUB_CACHE, or hub in HF_HOME, or huggingface/hub in
// XDG_CACHE_HOME or ~/.cache. A revision is a branch, a tag or a commit; main where there is none.
// Throws DataError where the model or the revision is not there.
std::filesystem::path find_hub_folder(std::string_view id);

}  // namespace sotto
