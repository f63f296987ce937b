// Common Voice: clips/ with MP3 files, and validated.tsv, train.tsv, ... with one row per clip.
#include <fmt/format.h>

#include <system_error>

#include "sotto/core/files/mapped_file.h"
#include "sotto/data/import/import_sources.h"

namespace sotto::data {

namespace fs = std::filesystem;

fs::path common_voice_table(const fs::path& source) {
  std::error_code ignored;
  if (!fs::is_directory(source, ignored)) return source;
  for (const char* name : {"validated.tsv", "train.tsv", "dev.tsv", "test.tsv"}) {
    if (fs::exists(source / name, ignored)) return source / name;
  }
  refuse_file(source, "it has neither validated.tsv nor train.tsv", "a Common Voice folder",
              "Name the table itself, as in cv/other.tsv.");
}

ImportList list_common_voice(const ImportRequest& request) {
  const fs::path table = common_voice_table(request.source);
  ImportOptions options = request.options;
  options.columns = {.audio = "path",
                     .text = "sentence",
                     .duration = {},
                     .offset = {},
                     .speaker = "client_id",
                     .lang = {}};
  options.audio_root = table.parent_path() / "clips";
  ImportList list = list_table({.source = table, .options = options});
  for (ImportItem& item : list.items) {
    // Early releases omit the extension.
    if (fs::path(item.file).extension().empty()) item.file += ".mp3";
  }
  return list;
}

}  // namespace sotto::data
