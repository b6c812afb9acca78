#include "data/synth.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"
#include "data/synth_grammar.h"
#include "data/synth_words.h"

namespace tessera {
namespace {

using grammar::Template;
using words::Noun;
using words::Verb;
using words::Word;

// The random choices of one story: its own Philox stream, so that story k never depends on how
// much text there is.
class Dice {
 public:
  Dice(uint64_t seed, uint64_t story) : key_(seed + hash_name("synth_stories")), story_(story) {}

  uint32_t below(size_t n) {
    if (used_ == block_.size()) {
      block_ = philox({block_index_++, 0, low(story_), high(story_)}, {low(key_), high(key_)});
      used_ = 0;
    }
    return high(static_cast<uint64_t>(block_[used_++]) * n);
  }
  template <typename T, size_t N>
  const T& pick(const T (&items)[N]) {
    return items[below(N)];
  }

 private:
  static uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
  static uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

  uint64_t key_, story_;
  std::array<uint32_t, 4> block_{};
  size_t used_ = block_.size();
  uint32_t block_index_ = 0;
};

struct Character {
  Word name, kind, trait;
  bool female = false;

  [[nodiscard]] Word he() const { return female ? "she" : "he"; }
  [[nodiscard]] Word him() const { return female ? "her" : "him"; }
  [[nodiscard]] Word his() const { return female ? "her" : "his"; }
};

constexpr size_t kMaxAttempts = 3;
constexpr size_t kMaxSentences = 12;

// What stays the same through a story.
struct Cast {
  Character hero;
  std::array<Character, kMaxAttempts> helpers;
  size_t helper = 0;  // the one who is on stage
  Word place, look, fear, kin;
  Noun thing, food, build;
  Verb skill;
};

Character draw_character(Dice& dice, bool hero) {
  Character c;
  c.trait = dice.pick(words::kTraits);
  c.female = dice.below(2) == 0;
  if (dice.below(2) == 0) {
    c.kind = dice.pick(words::kAnimals);
    c.name = dice.pick(words::kPetNames);
    return c;
  }
  c.kind = hero ? (c.female ? "girl" : "boy") : dice.pick(words::kPeople);
  c.name = c.female ? dice.pick(words::kGirlNames) : dice.pick(words::kBoyNames);
  return c;
}

Cast draw_cast(Dice& dice) {
  Cast cast;
  cast.hero = draw_character(dice, /*hero=*/true);
  for (size_t i = 0; i < cast.helpers.size(); ++i) {
    bool taken = true;
    while (taken) {
      cast.helpers[i] = draw_character(dice, /*hero=*/false);
      taken = cast.helpers[i].name == cast.hero.name;
      for (size_t j = 0; j < i; ++j) taken |= cast.helpers[i].name == cast.helpers[j].name;
    }
  }
  cast.place = dice.pick(words::kPlaces);
  cast.look = dice.pick(words::kLooks);
  cast.fear = dice.pick(words::kFears);
  cast.kin = dice.pick(words::kKin);
  cast.thing = dice.pick(words::kThings);
  cast.food = dice.pick(words::kFoods);
  cast.build = dice.pick(words::kBuilds);
  cast.skill = dice.pick(words::kSkills);
  return cast;
}

struct Slot {
  Word name;
  Word (*fill)(const Cast& cast, Dice& dice);
};

// Ordered by how often the templates use them: the search is linear.
constexpr Slot kSlots[] = {
    {"H", [](const Cast& c, Dice&) { return c.hero.name; }},
    {"F", [](const Cast& c, Dice&) { return c.helpers[c.helper].name; }},
    {"he", [](const Cast& c, Dice&) { return c.hero.he(); }},
    {"his", [](const Cast& c, Dice&) { return c.hero.his(); }},
    {"him", [](const Cast& c, Dice&) { return c.hero.him(); }},
    {"said", [](const Cast&, Dice& d) { return d.pick(words::kSaid); }},
    {"spot", [](const Cast&, Dice& d) { return d.pick(words::kSpots); }},
    {"ftrait", [](const Cast& c, Dice&) { return c.helpers[c.helper].trait; }},
    {"fkind", [](const Cast& c, Dice&) { return c.helpers[c.helper].kind; }},
    {"look", [](const Cast& c, Dice&) { return c.look; }},
    {"thing", [](const Cast& c, Dice&) { return c.thing.one; }},
    {"anylook", [](const Cast&, Dice& d) { return d.pick(words::kLooks); }},
    {"anything", [](const Cast&, Dice& d) { return d.pick(words::kThings).one; }},
    {"soon", [](const Cast&, Dice& d) { return d.pick(words::kSoon); }},
    {"num", [](const Cast&, Dice& d) { return d.pick(words::kNumbers); }},
    {"sad", [](const Cast&, Dice& d) { return d.pick(words::kSad); }},
    {"glad", [](const Cast&, Dice& d) { return d.pick(words::kGlad); }},
    {"moved", [](const Cast&, Dice& d) { return d.pick(words::kMoves).past; }},
    {"moving", [](const Cast&, Dice& d) { return d.pick(words::kMoves).ing; }},
    {"anythings", [](const Cast&, Dice& d) { return d.pick(words::kThings).many; }},
    {"things", [](const Cast& c, Dice&) { return c.thing.many; }},
    {"food", [](const Cast& c, Dice&) { return c.food.one; }},
    {"foods", [](const Cast& c, Dice&) { return c.food.many; }},
    {"build", [](const Cast& c, Dice&) { return c.build.one; }},
    {"builds", [](const Cast& c, Dice&) { return c.build.many; }},
    {"skill", [](const Cast& c, Dice&) { return c.skill.base; }},
    {"skilled", [](const Cast& c, Dice&) { return c.skill.past; }},
    {"skilling", [](const Cast& c, Dice&) { return c.skill.ing; }},
    {"kin", [](const Cast& c, Dice&) { return c.kin; }},
    {"fear", [](const Cast& c, Dice&) { return c.fear; }},
    {"trait", [](const Cast& c, Dice&) { return c.hero.trait; }},
    {"kind", [](const Cast& c, Dice&) { return c.hero.kind; }},
    {"place", [](const Cast& c, Dice&) { return c.place; }},
    {"time", [](const Cast&, Dice& d) { return d.pick(words::kTimes); }},
    {"weather", [](const Cast&, Dice& d) { return d.pick(words::kWeather); }},
    {"sound", [](const Cast&, Dice& d) { return d.pick(words::kSounds); }},
    {"mood", [](const Cast&,
                Dice& d) { return d.below(2) == 0 ? d.pick(words::kGlad) : d.pick(words::kSad); }},
    {"animal", [](const Cast&, Dice& d) { return d.pick(words::kAnimals); }},
    {"G", [](const Cast& c, Dice&) { return c.helpers[0].name; }},
    {"fhe", [](const Cast& c, Dice&) { return c.helpers[c.helper].he(); }},
    {"fhis", [](const Cast& c, Dice&) { return c.helpers[c.helper].his(); }},
    {"fhim", [](const Cast& c, Dice&) { return c.helpers[c.helper].him(); }},
};

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }
char upper(char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); }

const Slot* find_slot(Word name) {
  for (const Slot& slot : kSlots) {
    if (slot.name == name) return &slot;
  }
  return nullptr;
}

void fill_slot(Word name, const Cast& cast, Dice& dice, std::string& out) {
  const Slot* slot = find_slot(name);
  if (slot != nullptr) {
    out += slot->fill(cast, dice);
    return;
  }
  std::string small(name);
  small[0] = lower(small[0]);
  slot = find_slot(small);
  TESSERA_CHECK(slot != nullptr, "story template has unknown slot '{}'", name);
  const size_t start = out.size();
  out += slot->fill(cast, dice);
  out[start] = upper(out[start]);
}

bool is_vowel(char c) { return std::string_view("aeiouAEIOU").find(c) != std::string_view::npos; }

void write_sentence(Template text, const Cast& cast, Dice& dice, std::string& out) {
  size_t article = std::string::npos;  // where an "a" waits for its next letter
  size_t at = 0;
  while (at < text.size()) {
    const size_t open = text.find('{', at);
    out += text.substr(at, open - at);
    if (open == Template::npos) break;
    const size_t close = text.find('}', open);
    const Word name = text.substr(open + 1, close - open - 1);
    at = close + 1;
    if (name == "a") {
      article = out.size();
      out += 'a';
      continue;
    }
    fill_slot(name, cast, dice, out);
    if (article != std::string::npos) {
      if (is_vowel(out[article + 2])) out.insert(article + 1, 1, 'n');
      article = std::string::npos;
    }
  }
  out += ' ';
}

void write_story(uint64_t seed, uint64_t story, std::string& out) {
  Dice dice(seed, story);
  Cast cast = draw_cast(dice);
  const grammar::Plot& plot = dice.pick(grammar::kPlots);
  std::vector<const char*> told;  // a story does not use a template twice
  told.reserve(kMaxSentences);
  const auto tell = [&](std::span<const Template> choices) {
    size_t choice = dice.below(choices.size());
    while (std::ranges::find(told, choices[choice].data()) != told.end()) {
      choice = (choice + 1) % choices.size();
    }
    told.push_back(choices[choice].data());
    write_sentence(choices[choice], cast, dice, out);
  };
  tell(grammar::kOpening);
  if (dice.below(2) == 0) tell(grammar::kWeatherLine);
  tell(plot.problem);
  if (dice.below(3) != 0) tell(plot.talk);
  const size_t attempts = 2 + dice.below(kMaxAttempts - 1);
  for (size_t i = 0; i < attempts; ++i) {
    cast.helper = i;
    tell(grammar::kMeeting);
    // With three meetings there is no room for questions within kMaxSentences.
    if (attempts == 2 && dice.below(2) == 0) tell(plot.ask);
    tell(i + 1 < attempts ? plot.fail : plot.help);
  }
  tell(plot.end);
  tell(plot.moral);
  out.back() = '\n';
  out += '\n';
}

}  // namespace

std::string synth_stories(uint64_t seed, int64_t bytes) {
  require_config(bytes > 0, "synthetic data of {} bytes: synth_bytes must be positive", bytes);
  const auto size = static_cast<size_t>(bytes);
  constexpr size_t kLongestStory = 4096;
  std::string text;
  text.reserve(size + kLongestStory);
  for (uint64_t story = 0; text.size() < size; ++story) write_story(seed, story, text);
  text.resize(size);
  text.back() = '\n';
  return text;
}

}  // namespace tessera
