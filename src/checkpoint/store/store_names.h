// How folders, files and chunks of a store are called, and the version of its format. A name that
// comes from a file or a folder is taken only where it is one of these.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/box/box.h"

namespace tessera {

// Readers refuse another major version; a minor one adds fields that older readers pass over.
struct FormatVersion {
  int64_t major = 1;
  int64_t minor = 0;
  friend bool operator==(const FormatVersion&, const FormatVersion&) = default;
};
inline constexpr std::string_view kFormatName = "tessera-checkpoint";

inline constexpr std::string_view kManifestFile = "manifest.json";
inline constexpr std::string_view kStateFile = "state.json";
inline constexpr std::string_view kCommitFile = "COMMIT";
inline constexpr std::string_view kLatestFile = "LATEST";  // in the root; advisory
inline constexpr int64_t kMostStep = 99'999'999'999'999;

// Whose save it is. A run keeps its id over restarts; every restart has a higher generation, so
// that a rank that was given up for lost cannot take part in what came after it.
struct SaveId {
  std::string run;  // of letters, digits and '_', at most 64
  uint64_t generation = 0;
  std::string save;  // likewise; never twice in a run
  friend bool operator==(const SaveId&, const SaveId&) = default;
};
bool is_id(std::string_view text);
std::string text_of(const SaveId& id);  // for messages: "run a, generation 1, save b"

std::string step_folder(int64_t step);  // "step-00001000"
std::optional<int64_t> step_of_folder(std::string_view name);
std::string pin_file(int64_t step);  // in the root: "step-00001000.pin" keeps that step for ever
std::string in_progress_folder(const SaveId& id);  // ".inprogress-RUN-GENERATION-SAVE"
std::optional<SaveId> in_progress_of_folder(std::string_view name);

std::string data_file(int64_t rank, int64_t world);  // "data-0000-of-0016.safetensors"
std::string crc_file(int64_t rank, int64_t world);   // "data-0000-of-0016.crc"
std::string crc_file_of(std::string_view data_file);
// Whether it is one of either kind.
bool is_shard_file(std::string_view name);

// "model.embed_tokens.weight@128,0". Names may hold an '@' themselves: the last one counts.
std::string chunk_name(std::string_view tensor, const Box& box);

}  // namespace tessera
