#include "cli/run_source_flags.h"

#include "cli/flags.h"

namespace tessera {

void add_file_and_set(CLI::App& app, RunSource& source) {
  add_text(app, "run_file", source.file, "RUN.toml", "the run file");
  add_list(app, "--set", source.overrides, "A.B=C",
           "override a key: --set train.steps=5 (repeatable)");
}

void add_mesh(CLI::App& app, RunSource& source) {
  add_text(app, "--mesh", source.mesh, "MESH", "another mesh: \"dp=2,tp=2\"");
}

void add_ranks(CLI::App& app, RunSource& source) {
  add_whole(app, "--ranks", source.ranks, 1, "refuse a mesh that does not have this many ranks");
}

}  // namespace tessera
