// Vocabulary of the synthetic stories. Words after an article must not start with a vowel letter
// that sounds like a consonant ("unicorn"), nor the other way round ("hour"): a/an goes by letter.
#pragma once

#include <string_view>

namespace tessera::words {

using Word = std::string_view;

inline constexpr Word kGirlNames[] = {
    "Lily", "Anna", "Mia",  "Rose",  "Clara", "Nora",  "Ella",  "Ruby", "Daisy", "Emma",
    "Sara", "Lucy", "Ivy",  "Molly", "Jane",  "Hanna", "Tess",  "Olga", "Freya", "Greta",
    "Kate", "Zoe",  "Alma", "Vera",  "Polly", "Wendy", "Edith", "June", "Betty", "Maya"};
inline constexpr Word kBoyNames[] = {
    "Tom",  "Ben",  "Max",  "Sam",   "Leo",  "Jack",   "Finn",   "Oscar", "Hugo",  "Noah",
    "Tim",  "Paul", "Emil", "Peter", "Adam", "Felix",  "Otto",   "Henry", "Jonas", "Karl",
    "Luke", "Owen", "Rory", "Simon", "Toby", "Victor", "Walter", "Anton", "David", "Ned"};
// For animals; they may be of either gender.
inline constexpr Word kPetNames[] = {
    "Pip",    "Dot",     "Momo",    "Biscuit", "Button", "Pepper", "Clover",  "Fidget",
    "Muffin", "Twig",    "Bubbles", "Acorn",   "Noodle", "Patch",  "Tumble",  "Whisker",
    "Olive",  "Pebble",  "Ziggy",   "Inky",    "Sprout", "Maple",  "Nibbles", "Rusty",
    "Snowy",  "Thistle", "Waffle",  "Echo",    "Puddle", "Cricket"};

inline constexpr Word kAnimals[] = {
    "fox",    "rabbit", "bear",  "mouse", "owl",      "hedgehog", "squirrel", "duck",  "frog",
    "turtle", "kitten", "puppy", "goat",  "lamb",     "otter",    "badger",   "pony",  "crow",
    "beaver", "deer",   "mole",  "goose", "elephant", "monkey",   "penguin",  "snail", "lizard",
    "dragon", "robin",  "ant",   "bat",   "camel",    "donkey",   "eagle",    "koala", "swan"};
inline constexpr Word kPeople[] = {"baker",  "farmer", "sailor",    "teacher", "gardener",
                                   "miller", "tailor", "painter",   "fisher",  "shepherd",
                                   "potter", "cook",   "doctor",    "porter",  "singer",
                                   "actor",  "knight", "clockmaker"};
inline constexpr Word kTraits[] = {
    "little",   "brave",    "kind",  "curious", "shy",     "clever",   "gentle",
    "cheerful", "sleepy",   "quiet", "lively",  "patient", "young",    "funny",
    "proud",    "careful",  "eager", "old",     "polite",  "restless", "helpful",
    "dreamy",   "stubborn", "bold",  "wise",    "noisy"};

inline constexpr Word kPlaces[] = {
    "in a small village",          "in a green valley",         "in a house by the sea",
    "in a cottage near the woods", "in a town on a hill",       "in an old mill by the river",
    "on a farm far from the road", "in a tall tower",           "in a cave behind a waterfall",
    "on an island far away",       "in a hole under an oak",    "in a busy city",
    "on a boat on the lake",       "in a castle with no king",  "in a garden full of roses",
    "in a hut in the snow",        "in a forest of tall pines", "in a tent in the desert",
    "in a room above a bakery",    "in a lighthouse on a rock"};
// Each follows "to", "by", "near" or "past".
inline constexpr Word kSpots[] = {
    "the old barn",    "the market",         "the dark forest",  "the stone bridge",
    "the pond",        "the playground",     "the school yard",  "the windy hill",
    "the library",     "the apple orchard",  "the beach",        "the train station",
    "the corn field",  "the cellar",         "the attic",        "the bakery",
    "the duck pond",   "the village square", "the empty stable", "the rose garden",
    "the hollow tree", "the toy shop",       "the muddy path",   "the harbor",
    "the greenhouse",  "the river bank",     "the tree house",   "the bus stop",
    "the old well",    "the meadow"};

struct Noun {
  Word one;
  Word many;
};
inline constexpr Noun kThings[] = {
    {"ball", "balls"},         {"kite", "kites"},         {"book", "books"},
    {"hat", "hats"},           {"drum", "drums"},         {"lamp", "lamps"},
    {"box", "boxes"},          {"shell", "shells"},       {"key", "keys"},
    {"scarf", "scarves"},      {"umbrella", "umbrellas"}, {"basket", "baskets"},
    {"bell", "bells"},         {"button", "buttons"},     {"cup", "cups"},
    {"doll", "dolls"},         {"flute", "flutes"},       {"ring", "rings"},
    {"map", "maps"},           {"mirror", "mirrors"},     {"coat", "coats"},
    {"spoon", "spoons"},       {"whistle", "whistles"},   {"marble", "marbles"},
    {"toy boat", "toy boats"}, {"wagon", "wagons"},       {"clock", "clocks"},
    {"feather", "feathers"},   {"blanket", "blankets"},   {"pencil", "pencils"},
    {"egg", "eggs"},           {"apron", "aprons"},       {"ink pot", "ink pots"},
    {"watch", "watches"},      {"candle", "candles"},     {"lantern", "lanterns"}};
inline constexpr Noun kFoods[] = {
    {"apple", "apples"},    {"pear", "pears"},       {"plum", "plums"},      {"cookie", "cookies"},
    {"carrot", "carrots"},  {"nut", "nuts"},         {"berry", "berries"},   {"bun", "buns"},
    {"cherry", "cherries"}, {"pancake", "pancakes"}, {"potato", "potatoes"}, {"onion", "onions"},
    {"orange", "oranges"},  {"loaf", "loaves"},      {"cake", "cakes"},      {"peach", "peaches"}};
inline constexpr Word kLooks[] = {
    "red",    "blue",   "yellow", "green",   "golden", "silver", "shiny",  "tiny",   "wooden",
    "round",  "soft",   "old",    "striped", "orange", "purple", "broken", "bright", "heavy",
    "pretty", "simple", "dusty",  "painted", "odd",    "warm",   "white",  "magic",  "favorite"};
inline constexpr Word kNumbers[] = {"two", "three", "four",  "five",
                                    "six", "seven", "eight", "nine"};

struct Verb {
  Word base;
  Word past;
  Word ing;
};
inline constexpr Verb kSkills[] = {
    {"swim", "swam", "swimming"},      {"sing", "sang", "singing"},
    {"dance", "danced", "dancing"},    {"paint", "painted", "painting"},
    {"read", "read", "reading"},       {"climb", "climbed", "climbing"},
    {"skate", "skated", "skating"},    {"whistle", "whistled", "whistling"},
    {"bake", "baked", "baking"},       {"sail", "sailed", "sailing"},
    {"juggle", "juggled", "juggling"}, {"fish", "fished", "fishing"},
    {"write", "wrote", "writing"},     {"draw", "drew", "drawing"},
    {"knit", "knitted", "knitting"},   {"jump", "jumped", "jumping"},
    {"count", "counted", "counting"},  {"cook", "cooked", "cooking"}};
inline constexpr Verb kMoves[] = {
    {"run", "ran", "running"},        {"walk", "walked", "walking"},
    {"hop", "hopped", "hopping"},     {"hurry", "hurried", "hurrying"},
    {"march", "marched", "marching"}, {"creep", "crept", "creeping"},
    {"skip", "skipped", "skipping"},  {"wander", "wandered", "wandering"},
    {"race", "raced", "racing"},      {"stroll", "strolled", "strolling"}};

inline constexpr Word kFears[] = {"the dark",    "thunder",        "deep water",
                                  "big dogs",    "spiders",        "high places",
                                  "loud noises", "strangers",      "the wind",
                                  "being alone", "the old cellar", "the first day of school"};
inline constexpr Word kKin[] = {"grandmother", "grandfather", "mother", "father",
                                "uncle",       "aunt",        "sister", "brother"};
inline constexpr Noun kBuilds[] = {
    {"raft", "rafts"},   {"bridge", "bridges"}, {"swing", "swings"},           {"nest", "nests"},
    {"fence", "fences"}, {"ladder", "ladders"}, {"snowman", "snowmen"},        {"oven", "ovens"},
    {"shed", "sheds"},   {"sled", "sleds"},     {"tree house", "tree houses"}, {"arch", "arches"}};
inline constexpr Word kGlad[] = {"happy",  "proud",    "glad",    "cheerful", "calm",
                                 "joyful", "thankful", "excited", "pleased",  "full of joy"};
inline constexpr Word kSad[] = {"sad",   "worried", "lonely", "upset",   "afraid",
                                "tired", "cross",   "gloomy", "ashamed", "unhappy"};
inline constexpr Word kTimes[] = {"One day",
                                  "One morning",
                                  "One evening",
                                  "Once upon a time",
                                  "Long ago",
                                  "One rainy day",
                                  "Early one morning",
                                  "On the first day of spring",
                                  "In the middle of winter",
                                  "Last summer",
                                  "One quiet Sunday",
                                  "On a cold night"};
inline constexpr Word kWeather[] = {
    "The sun was shining",        "It was raining hard",
    "A cold wind was blowing",    "Snow was falling",
    "The sky was gray",           "A soft mist lay on the fields",
    "The air was warm and still", "Dark clouds were coming",
    "The stars were out",         "It was so hot that the road was soft",
    "Frost covered the windows",  "A rainbow was in the sky"};
inline constexpr Word kSounds[] = {"the birds sang",        "the leaves danced",
                                   "nobody was outside",    "the bees were humming",
                                   "the clocks struck ten", "the river was singing",
                                   "a dog barked far away", "the whole street smelled of bread",
                                   "the grass was wet",     "everyone was still asleep"};
inline constexpr Word kSaid[] = {"said", "answered", "replied", "whispered", "laughed", "called"};
inline constexpr Word kSoon[] = {"Then", "After that", "A little later", "Soon",
                                 "Next", "At noon",    "Before long",    "In the afternoon"};

}  // namespace tessera::words
