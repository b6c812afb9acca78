#include "checkpoint/store/file_ops.h"

#include "base/error.h"
#include "checkpoint/store/store_error.h"

namespace tessera {

std::string read_small_file(const FileOps& files, const StorePath& path, int64_t most_bytes) {
  const std::unique_ptr<OldFile> file = files.open(path);
  if (file->size() > most_bytes) {
    fail_corrupt(files.path_text(path),
                 fmt::format("it has {} bytes, more than {}", file->size(), most_bytes));
  }
  std::string text(static_cast<size_t>(file->size()), '\0');
  file->read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void write_small_file(FileOps& files, const StorePath& path, const std::string& text) {
  const std::string temporary = path.name + ".tmp";
  files.remove_file({path.folder, temporary});  // of a writer that was killed
  {
    const std::unique_ptr<NewFile> file = files.create({path.folder, temporary});
    file->write(std::as_bytes(std::span(text)));
    file->sync();
  }
  files.rename_file(path.folder, temporary, path.name);
  files.sync_folder(path.folder);
}

}  // namespace tessera
