// Sentence templates of the synthetic stories. Each is one sentence. A word in braces is a slot
// (the table is in synth.cc): slots of the cast and the plot keep their value through a story, the
// others are drawn anew each time. {a} becomes "a" or "an" by the letter that follows; a slot
// written with a capital gives a capital.
#pragma once

#include <span>
#include <string_view>

namespace tessera::grammar {

using Template = std::string_view;

inline constexpr Template kOpening[] = {
    "{time} there was {a} {trait} {kind} named {H} who lived {place}.",
    "{Place} lived {a} {trait} {kind} named {H}.",
    "{H} was {a} {trait} {kind} who lived {place}.",
    "There was once {a} {trait} {kind} who lived {place}, and {his} name was {H}.",
    "{time} {a} {trait} {kind} named {H} woke up {place}.",
    "{time} {H}, {a} {trait} {kind}, was playing {place}.",
    "Do you know {H}, the {trait} {kind} who lives {place}?",
};
inline constexpr Template kWeatherLine[] = {
    "{weather} and {sound}.",
    "{weather}, and {H} felt {mood}.",
    "{weather} while {sound}.",
    "{weather}, so {H} took {a} {anylook} {anything} along.",
};
// A meeting, at the start of each attempt.
inline constexpr Template kMeeting[] = {
    "{soon} {he} {moved} to {spot} and met {a} {ftrait} {fkind} named {F}.",
    "Near {spot} {he} saw {a} {ftrait} {fkind}, whose name was {F}.",
    "{soon} {a} {ftrait} {fkind} named {F} came by from {spot}.",
    "By {spot} {he} found {a} {ftrait} {fkind} called {F}.",
    "{H} {moved} past {spot}, and there was {F}, {a} {ftrait} {fkind}.",
    "{soon} {he} heard {a} {ftrait} {fkind} named {F}, who was {moving} around {spot}.",
    "On the way to {spot} {he} met {F}, {a} {ftrait} {fkind} with {a} {anylook} {anything}.",
};

struct Plot {
  std::span<const Template> problem;
  std::span<const Template> talk;  // the hero makes up {his} mind
  std::span<const Template> ask;   // asks the helper
  std::span<const Template> fail;  // a meeting that does not solve it
  std::span<const Template> help;  // the meeting that does
  std::span<const Template> end;
  std::span<const Template> moral;
};

namespace lost {
inline constexpr Template kProblem[] = {
    "{H} had lost {his} {look} {thing} and felt {sad}.",
    "{His} {look} {thing} was gone, and {he} wanted it back.",
    "That day {his} {look} {thing} was not in its place.",
    "The wind had taken {his} {look} {thing} away, so {he} went out to look for it.",
    "When {he} came home from {spot}, {his} {look} {thing} was missing.",
};
inline constexpr Template kTalk[] = {
    "\"I must find my {thing},\" said {H}.",
    "\"Where can it be?\" asked {H} and looked under {num} {anythings}.",
    "{He} looked behind {a} {anylook} {anything}, but it was not there.",
    "\"I had it near {spot},\" {H} remembered.",
};
inline constexpr Template kAsk[] = {
    "\"Have you seen my {look} {thing}?\" asked {H}.",
    "\"I am looking for {a} {look} {thing},\" {said} {H}.",
    "{H} asked, \"Did you see {a} {thing} near {spot}?\"",
};
inline constexpr Template kFail[] = {
    "\"No, I only have {a} {anylook} {anything},\" {said} {F}.",
    "\"I saw {num} {anythings} today, but not your {thing},\" {said} {F}.",
    "{F} shook {fhis} head and gave {him} {a} {food} for the road.",
    "They looked together by {spot}, but they found only {a} {anylook} {anything}.",
    "\"My {things} are all at home,\" {said} {F}, \"and none of them is {look}.\"",
};
inline constexpr Template kHelp[] = {
    "\"Look by {spot}, for I saw something {look} there,\" {said} {F}.",
    "\"I think I know where it is,\" {said} {F} and {moved} to {spot}.",
    "{F} took {him} to {spot} and asked all the {animal} children about it.",
};
inline constexpr Template kEnd[] = {
    "There it was, the {look} {thing}, under {a} {anylook} {anything}.",
    "At last they found the {thing} by {spot}, and {H} was {glad}.",
    "{H} saw something {look} in the grass, and it was {his} {thing}!",
    "The {thing} had been in {his} own pocket all the time, and both had to laugh.",
};
inline constexpr Template kMoral[] = {
    "{H} thanked {F}, and from then on {he} took good care of {his} {things}.",
    "{H} learned that friends make every search shorter.",
    "So {H} and {F} became friends, because a good friend helps you look.",
    "Since that day the {thing} has its own place near {spot}.",
};
}  // namespace lost

namespace learn {
inline constexpr Template kProblem[] = {
    "More than anything {H} wanted to {skill}, but {he} did not know how.",
    "{H} wished that {he} could {skill} like {his} {kin}.",
    "All the others could {skill}, and {H} felt {sad} because {he} could not.",
    "In {num} days there was a big feast, and {H} wanted to {skill} there.",
};
inline constexpr Template kTalk[] = {
    "\"Today I will learn to {skill},\" said {H}.",
    "{He} practiced by {spot} every day, but {skilling} was hard.",
    "{He} tried it alone and fell over {a} {anylook} {anything}.",
    "\"Who can show me?\" asked {H}.",
};
inline constexpr Template kAsk[] = {
    "\"Can you teach me to {skill}?\" asked {H}.",
    "{H} asked, \"Is {skilling} very hard?\"",
    "\"I want to {skill}, but I always feel {sad} when I try,\" {said} {H}.",
};
inline constexpr Template kFail[] = {
    "\"I do not like {skilling}, but I can give you {a} {food},\" {said} {F}.",
    "{F} showed {him} how {fhe} {skilled}, but it was too fast for {him}.",
    "They tried {num} times, and each time it went wrong.",
    "\"My {kin} never {skilled} either,\" {said} {F}, and {H} {moved} on.",
};
inline constexpr Template kHelp[] = {
    "\"Start slowly and do not be {sad},\" {said} {F}.",
    "\"I tried {num} times before I could {skill},\" {said} {F}.",
    "{F} stayed until the evening and showed {him} one small step at a time.",
    "\"First watch me and then do the same,\" {said} {F}.",
};
inline constexpr Template kEnd[] = {
    "{H} tried once more, and this time {he} {skilled} better than {F}.",
    "On the next day {H} {skilled} so well that {G} clapped.",
    "{He} closed {his} eyes, took a deep breath, and {skilled} for the first time.",
    "After {num} weeks of {skilling} {he} was {glad}, and so was {F}.",
};
inline constexpr Template kMoral[] = {
    "{H} was {glad}, because {he} had learned that practice helps.",
    "Since then {H} says that nobody is born {skilling}.",
    "And now everyone knew that {a} {trait} {kind} can learn to {skill}.",
    "Whoever tries again will learn it in the end.",
};
}  // namespace learn

namespace fear {
inline constexpr Template kProblem[] = {
    "{H} had one secret, because {he} was afraid of {fear}.",
    "Everybody liked {H}, but {he} was afraid of {fear}.",
    "Because of {fear}, {H} never went to {spot}.",
    "{H} was {trait}, but when {he} thought of {fear}, {he} felt {sad}.",
};
inline constexpr Template kTalk[] = {
    "\"I do not want to be afraid any more,\" said {H}.",
    "{He} hid under {a} {anylook} blanket and counted to {num}.",
    "\"What would my {kin} do?\" asked {H}.",
};
inline constexpr Template kAsk[] = {
    "\"Are you afraid of {fear} too?\" asked {H}.",
    "{H} asked, \"What do you do when you feel {sad}?\"",
    "\"Please do not laugh, but I am afraid of {fear},\" {said} {H}.",
};
inline constexpr Template kFail[] = {
    "\"I just run away to {spot},\" {said} {F}, but that did not help.",
    "{F} gave {him} {a} {look} {thing}, but {H} was still {sad}.",
    "\"I am afraid of {anythings},\" {said} {F}, and they were both quiet.",
    "{F} told {him} a story about {num} {foods}, but it was too short.",
};
inline constexpr Template kHelp[] = {
    "\"Hold my hand and we will go together,\" {said} {F}.",
    "\"Even {a} {trait} {animal} is afraid sometimes,\" {said} {F}.",
    "{F} sat down next to {him} and sang a song about {a} {anylook} {anything}.",
};
inline constexpr Template kEnd[] = {
    "{H} took {num} small steps, and nothing bad happened.",
    "When {he} looked again, {fear} did not seem so bad, and {he} felt {glad}.",
    "That night {H} {moved} to {spot} alone and came back {glad}.",
    "{H} laughed, and {F} and {G} laughed with {him}.",
};
inline constexpr Template kMoral[] = {
    "To be brave is to be afraid and to go on.",
    "Now {H} helps others who are afraid of {fear}.",
    "{H} learned that a fear gets smaller when you share it.",
    "And if {he} is {sad} again, {he} thinks of {F}.",
};
}  // namespace fear

namespace gift {
inline constexpr Template kProblem[] = {
    "It was the birthday of {his} {kin}, and {H} had no gift.",
    "{H} wanted to bring {a} {look} {thing} to {his} {kin}, who was ill.",
    "{His} {kin} was {sad}, so {H} wished to find {a} {look} {thing} as a surprise.",
    "{H} had only {num} {foods} and wanted to trade them for {a} {look} {thing}.",
};
inline constexpr Template kTalk[] = {
    "\"My {kin} must have {a} {look} {thing},\" said {H}.",
    "{He} put {num} {foods} into {a} {anylook} basket and left the house.",
    "\"I will make the day {look} and bright,\" said {H}.",
};
inline constexpr Template kAsk[] = {
    "\"Do you have {a} {look} {thing}?\" asked {H}.",
    "{H} asked, \"What would make my {kin} {glad}?\"",
    "\"I can give you {num} {foods} for it,\" {said} {H}.",
};
inline constexpr Template kFail[] = {
    "\"I have {num} {things}, but they are all {anylook},\" {said} {F}.",
    "\"My {kin} likes {foods},\" {said} {F}, but that was not right.",
    "{F} sold {him} {a} {anylook} {anything}, but it broke by {spot}.",
    "\"Come back in {num} days,\" {said} {F}, but that was too late.",
};
inline constexpr Template kHelp[] = {
    "\"Take mine, I do not need it any more,\" {said} {F}.",
    "\"Let us make one out of {num} {anythings},\" {said} {F}.",
    "{F} opened {a} {anylook} box, and in it lay {a} {look} {thing}.",
};
inline constexpr Template kEnd[] = {
    "{His} {kin} held the {look} {thing} and was {glad}.",
    "{H} {moved} home, and {his} {kin} hugged {him} and {F}.",
    "\"This is the best {thing} in the world,\" said {his} {kin}.",
    "In the evening they all ate {foods}, and {F} and {G} came too.",
};
inline constexpr Template kMoral[] = {
    "A gift is big when the heart is big.",
    "{H} learned that giving makes you as {glad} as getting.",
    "And what did {H} get, apart from a hug?",
    "Since then {F} gets {a} {food} from {H} every year.",
};
}  // namespace gift

namespace build {
inline constexpr Template kProblem[] = {
    "{H} wanted to build {a} {look} {build}, but {he} could not do it alone.",
    "The old {build} by {spot} was broken, and everybody was {sad}.",
    "{H} dreamed of {a} {build} as big as {a} {animal}.",
    "All day {H} drew {a} {build} on paper, and now {he} wanted a real one.",
};
inline constexpr Template kTalk[] = {
    "\"I need wood, {num} nails and {a} {anylook} {anything},\" said {H}.",
    "{He} carried {num} stones from {spot}, but they were too heavy.",
    "\"It will be the best {build} of all,\" said {H}.",
};
inline constexpr Template kAsk[] = {
    "\"Will you help me with my {build}?\" asked {H}.",
    "{H} asked, \"Do you know how {builds} are made?\"",
    "\"Do you have {a} {anylook} {anything} for my {build}?\" asked {H}.",
};
inline constexpr Template kFail[] = {
    "\"I have no time, I must count my {foods},\" {said} {F}.",
    "{F} brought {num} {anythings}, but the {build} fell down again.",
    "\"Nobody builds {builds} here,\" {said} {F} and {moved} away.",
    "They worked until noon, but then the rope was too short.",
};
inline constexpr Template kHelp[] = {
    "\"We will do it together, piece by piece,\" {said} {F}.",
    "{F} called {num} friends, and each of them had {a} {anylook} {anything}.",
    "\"You must begin with the bottom,\" {said} {F} and picked up a hammer.",
};
inline constexpr Template kEnd[] = {
    "When the sun went down, the {build} was ready, and it was {look}.",
    "After {num} days the {build} stood firm, and {H} was {glad}.",
    "{G} tried the {build} first, then {F}, and last of all {H}.",
    "They put {a} {look} {thing} on top and danced around the {build}.",
};
inline constexpr Template kMoral[] = {
    "Many hands make light work.",
    "{H} learned to ask for help before {he} is {sad}.",
    "If you pass {spot}, you can still see the {build} of {H} and {F}.",
    "Big things begin with one small piece.",
};
}  // namespace build

namespace share {
inline constexpr Template kProblem[] = {
    "{H} had {num} {foods}, but nobody to eat them with.",
    "{His} {kin} gave {H} a basket with {num} {foods} for a trip.",
    "{H} found {num} {foods} by {spot} and wanted to keep them all.",
    "{H} had the only {look} {thing} in town and never let others touch it.",
};
inline constexpr Template kTalk[] = {
    "\"All of it is mine,\" said {H}.",
    "{He} sat down alone by {spot} and felt {sad}.",
    "\"Maybe I will find a friend today,\" said {H}.",
};
inline constexpr Template kAsk[] = {
    "\"Why do you look so {sad}?\" asked {H}.",
    "{F} asked, \"May I have {a} {food}?\"",
    "\"What do you have in your {anylook} bag?\" asked {F}.",
};
inline constexpr Template kFail[] = {
    "\"This is too little for two,\" {said} {H}, and {F} {moved} away.",
    "{F} took {a} {food}, said thank you, and {moved} to {spot}.",
    "\"I only eat {anylook} {foods},\" {said} {F}, so they did not share.",
    "{F} was {sad}, and {H} did not know what to say.",
};
inline constexpr Template kHelp[] = {
    "\"I have nothing, but I can tell you a story,\" {said} {F}.",
    "{H} saw how hungry {F} was and gave {fhim} the biggest {food}.",
    "\"Let us cut everything in two,\" {said} {H}, and {F} smiled.",
};
inline constexpr Template kEnd[] = {
    "They ate {foods} until {sound}, and both were {glad}.",
    "Then {G} came back with {a} {anylook} {anything}, and they all played together.",
    "{F} gave {H} {a} {look} {thing} in return, and {he} was {glad}.",
    "Nothing was left in the end, but {H} had never been so {glad}.",
};
inline constexpr Template kMoral[] = {
    "What you share with a friend tastes twice as good.",
    "{H} learned that {a} {food} for two is better than {num} for one.",
    "From then on {H} always kept one {food} for {F}.",
    "And so {a} {kind} and {a} {fkind} became friends.",
};
}  // namespace share

inline constexpr Plot kPlots[] = {
    {lost::kProblem, lost::kTalk, lost::kAsk, lost::kFail, lost::kHelp, lost::kEnd, lost::kMoral},
    {learn::kProblem, learn::kTalk, learn::kAsk, learn::kFail, learn::kHelp, learn::kEnd,
     learn::kMoral},
    {fear::kProblem, fear::kTalk, fear::kAsk, fear::kFail, fear::kHelp, fear::kEnd, fear::kMoral},
    {gift::kProblem, gift::kTalk, gift::kAsk, gift::kFail, gift::kHelp, gift::kEnd, gift::kMoral},
    {build::kProblem, build::kTalk, build::kAsk, build::kFail, build::kHelp, build::kEnd,
     build::kMoral},
    {share::kProblem, share::kTalk, share::kAsk, share::kFail, share::kHelp, share::kEnd,
     share::kMoral},
};

}  // namespace tessera::grammar
