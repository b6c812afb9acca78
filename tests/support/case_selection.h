// Which lines of tests/equivalence are run: one of every pair of features, and a part of the rest
// that changes from commit to commit.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "spec/entry.h"
#include "support/tiny.h"

namespace tessera::testing {

// The lines of every *.txt in `folder`, files in order of their names, without comments; a line
// that is written twice is read once.
inline std::vector<std::string> read_cases(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> lines;
  std::set<std::string> known;
  for (const auto& path : files) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      if (!line.empty() && line[0] != '#' && known.insert(line).second) lines.push_back(line);
    }
  }
  return lines;
}

// What a line is about: each key whose value is not that of the tiny model, by value where the
// values are kinds ("zero=2", "tied=true"), else by name ("vocab"); and what follows from several.
inline std::vector<std::string> features_of(const std::string& line) {
  TinyCase mine = parse_case(line);
  TinyCase plain = parse_case("dp=1");
  std::vector<std::string> features;
  if (mine.mask != plain.mask) features.push_back("mask=" + mine.mask);
  if (accumulation(mine.spec) > 1) features.emplace_back("accumulation");
  for (const Key& key : run_keys()) {
    if (key.name == "global_batch") continue;
    const nlohmann::json value = value_of(key.field(mine.spec));
    if (value == nlohmann::json(value_of(key.field(plain.spec)))) continue;
    const bool kind = !value.is_number() || key.name == "zero";
    features.push_back(std::string(key.name) + (kind ? "=" + value.dump() : ""));
  }
  std::sort(features.begin(), features.end());
  return features;
}

using FeaturePair = std::pair<std::string, std::string>;

// A feature alone counts as a pair with itself.
inline std::set<FeaturePair> pairs_of(const std::vector<std::string>& features) {
  std::set<FeaturePair> pairs;
  for (size_t i = 0; i < features.size(); ++i) {
    for (size_t j = i; j < features.size(); ++j) pairs.insert({features[i], features[j]});
  }
  return pairs;
}

// Indices of lines that together have every pair of features that any line has: again and again
// the line with most pairs that are still missing, the first one among equals.
inline std::vector<size_t> pairwise_cover(const std::vector<std::string>& lines) {
  std::vector<std::set<FeaturePair>> missing;
  missing.reserve(lines.size());
  for (const std::string& line : lines) missing.push_back(pairs_of(features_of(line)));
  std::vector<size_t> chosen;
  while (true) {
    const auto best = std::max_element(missing.begin(), missing.end(),
                                       [](auto& a, auto& b) { return a.size() < b.size(); });
    if (best == missing.end() || best->empty()) break;
    chosen.push_back(static_cast<size_t>(best - missing.begin()));
    const std::set<FeaturePair> covered = *best;
    for (auto& pairs : missing) {
      for (const FeaturePair& pair : covered) pairs.erase(pair);
    }
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

struct Selection {
  std::vector<std::string> cover;
  std::vector<std::string> others;  // one of `rotations` equal parts of what is not in the cover
};

inline Selection select_cases(const std::vector<std::string>& lines, int64_t rotation,
                              int64_t rotations) {
  Selection selection;
  std::set<size_t> covering;
  for (const size_t i : pairwise_cover(lines)) {
    selection.cover.push_back(lines[i]);
    covering.insert(i);
  }
  int64_t place = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (covering.contains(i)) continue;
    if (place++ % rotations == rotation % rotations) selection.others.push_back(lines[i]);
  }
  return selection;
}

}  // namespace tessera::testing
