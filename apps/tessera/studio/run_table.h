// The runs that the studio shows, each under a name that a link can hold. Links name runs by it,
// never by a path, so nothing outside the table can be asked for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct RunEntry {
  std::string id;      // [A-Za-z0-9._-]+, the same at every start
  std::string name;    // of its folder, printable
  std::string folder;  // as people would write it, printable
  std::string path;    // where it is: no link in it
};

class RunTable {
 public:
  // `folders`: run directories, or folders of run directories. Throws ConfigError for one that is
  // not there; what is in them is looked at again at every call.
  explicit RunTable(std::vector<std::string> folders);
  // The same of a folder that may not be there yet.
  static RunTable of_default(const std::string& folder);

  [[nodiscard]] std::vector<RunEntry> list() const;
  [[nodiscard]] std::optional<RunEntry> find(std::string_view id) const;
  [[nodiscard]] const std::vector<std::string>& folders() const { return folders_; }

 private:
  RunTable() = default;
  std::vector<std::string> folders_;
};

}  // namespace tessera
