// Components of this test's own, of each type of value there is.
#include "io/component/component.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "io/base/wrap.h"
#include "io/component/choice.h"
#include "io/component/component_json.h"
#include "io/component/component_text.h"
#include "tests/support/num_members.h"

namespace millrace {
namespace component_test {

/// What components of this kind make.
class Brush {
 public:
  virtual ~Brush() = default;
  virtual std::string draws() const = 0;
};

class TextBrush final : public Brush {
 public:
  explicit TextBrush(std::string text) : text_(std::move(text)) {}
  std::string draws() const override { return text_; }

 private:
  std::string text_;
};

enum class Colour { kRed, kDeepBlue };

const ValueType& value_type(const Colour& /*unused*/) {
  static const EnumType<Colour> type({{"red", Colour::kRed}, {"deep-blue", Colour::kDeepBlue}});
  return type;
}

struct Ink {
  Colour colour = Colour::kRed;
  float density = 0.5F;

  static const ComponentName kName;
  void fields(FieldList& field) {
    field("colour", colour, "What is seen");
    field("density", density, {.min = 0, .max = 1}, "Share of light that is held back");
  }
};
const ComponentName Ink::kName = {"ink", "Ink", "What a brush is dipped in"};

struct Pen {
  int width = 2;
  Interval pressure = {0.1, 0.9};
  bool soft = false;
  Ink ink = {.density = 1};
  std::optional<std::int64_t> seed = {};
  std::vector<double> dashes = {};
  RunLength life = {};
  std::string label = "plain";

  static const ComponentName kName;
  void fields(FieldList& field) {
    field("width", width, {.min = 1, .max = 99, .unit = "px"}, "Of the line");
    field("pressure", pressure, {.min = 0, .max = 1}, "From and to");
    field.by_name();
    field("soft", soft, "Whether it yields");
    field("ink", ink, "Its filling");
    field("seed", seed, "Its own");
    field("dashes", dashes, {.min = 0, .open_min = true}, "Lengths that alternate");
    field("life", life, {.min = 0}, "How long it lasts");
    field("label", label, "What is printed on it");
  }
  void check() const { require(!soft || width > 1, "a soft pen is wider than 1"); }
  std::unique_ptr<Brush> make() const {
    return std::make_unique<TextBrush>("line of " + std::to_string(width));
  }
};
const ComponentName Pen::kName = {"pen", "Pen", "Draws a line"};

/// Its strength must be given: the default is out of range.
struct Spray {
  double strength = 0;

  static const ComponentName kName;
  void fields(FieldList& field) {
    field("strength", strength, {.min = 0, .open_min = true}, "Drops a second");
  }
  std::unique_ptr<Brush> make() const { return std::make_unique<TextBrush>("drops"); }
};
const ComponentName Spray::kName = {"spray", "Spray", "Draws drops"};

const TableOf<Brush>& brushes() {
  static const TableOf<Brush> table = TableOf<Brush>("brush").add<Pen>().add<Spray>();
  return table;
}

std::vector<Choice<Brush>> read(std::string_view text) { return parse(text, brushes()); }

Choice<Brush> read_one(std::string_view text) { return read(text).at(0); }

std::string refusal(std::string_view text) {
  try {
    read(text);
  } catch (const Mistake& mistake) {
    return std::to_string(mistake.begin + 1) + ": " + mistake.message();
  }
  return "taken";
}

TEST(Component, IsReadFromACallByPlaceAndByName) {
  const Pen* pen = nullptr;
  const auto all =
      read("pen(3, 0.2..0.4, soft, ink=ink(deep-blue), seed=7, dashes=[1, 2.5]), spray(4)");
  ASSERT_EQ(all.size(), 2U);
  pen = all[0].get_if<Pen>();
  ASSERT_NE(pen, nullptr);
  EXPECT_EQ(pen->width, 3);
  EXPECT_EQ(pen->pressure, (Interval{0.2, 0.4}));
  EXPECT_TRUE(pen->soft);
  EXPECT_EQ(pen->ink.colour, Colour::kDeepBlue);
  EXPECT_EQ(pen->seed, 7);
  EXPECT_EQ(pen->dashes, (std::vector<double>{1, 2.5}));
  EXPECT_EQ(all[1].get_if<Pen>(), nullptr);
  EXPECT_EQ(read("pen(dashes=2)")[0].get_if<Pen>()->dashes, std::vector<double>{2});
  EXPECT_EQ(all[1].make()->draws(), "drops");
}

TEST(Component, ANestedOneStartsFromItsOwnDefaultsAsInCpp) {
  EXPECT_EQ(read_one("pen").get_if<Pen>()->ink.density, 1.0F);
  EXPECT_EQ(read_one("pen(ink=ink(deep-blue))").get_if<Pen>()->ink.density, 0.5F);
  EXPECT_EQ(read_one("pen(ink=ink(deep-blue))"),
            (Choice<Brush>(Pen{.ink = {.colour = Colour::kDeepBlue}})));
}

TEST(Component, IsPrintedAtItsShortestAndRecordedAsAWhole) {
  const Choice<Brush> pen = Pen{.width = 3, .soft = true, .life = {5, RunLength::Unit::kEpochs}};
  EXPECT_EQ(text(pen), "pen(3, soft, life=5ep)");
  EXPECT_EQ(json_text(pen),
            R"({"name":"pen","width":3,"pressure":[0.1,0.9],"soft":true,)"
            R"("ink":{"name":"ink","colour":"red","density":1},"seed":null,"dashes":[],)"
            R"("life":"5ep","label":"plain"})");
  EXPECT_EQ(text(Choice<Brush>(Pen{})), "pen");
  EXPECT_EQ(text(Choice<Brush>(Pen{.label = "a (b)"})), "pen(label=\"a (b)\")");
}

TEST(Component, TomlIsAStringAnArrayOrTables) {
  const auto wanted = read("pen(3), spray(2)");
  for (const char* toml : {"\"pen(3), spray(2)\"", "[\"pen(3)\", 'spray(2)']",
                           "[{ name = \"pen\", width = 3 }, { name = \"spray\", strength = 2 }]"}) {
    const auto components = components_of(written_toml(toml), brushes());
    ASSERT_EQ(components.size(), 2U) << toml;
    EXPECT_EQ(components[0], wanted[0]) << toml;
    EXPECT_EQ(components[1], wanted[1]) << toml;
  }
}

TEST(Component, AMistakeNamesItsColumnAndTheNearestName) {
  EXPECT_EQ(refusal("pen(3), spary(2)"), "9: there is no brush 'spary'; did you mean spray?");
  EXPECT_EQ(refusal("pen(wdith=3)"), "5: pen has no 'wdith'; did you mean width?");
  EXPECT_EQ(refusal("pen(ink=ink(green))"),
            "13: colour: there is no 'green'; there are red, deep-blue");
  EXPECT_EQ(refusal("pen(0)"), "5: width must be 1 to 99 px");
  EXPECT_EQ(refusal("pen(3, width=3)"), "8: width is given twice");
  EXPECT_EQ(refusal("pen(3, 0.1..0.2, 5)"), "18: pen takes at most 2 without a name");
  EXPECT_EQ(refusal("pen(3"), "4: this ( is not closed");
  EXPECT_EQ(refusal("pen(pressure=0.5..0.1)"), "5: pressure: must not end before it begins");
  EXPECT_EQ(refusal("pen(life=5)"), "5: life: must have a unit: 5ep or 100steps");
  EXPECT_EQ(refusal("spray"), "1: spray needs strength");
  EXPECT_EQ(refusal("spray(nan)"), "7: strength: 'nan' is not a number");
  EXPECT_EQ(refusal("spray([1, 2])"), "7: strength: must be one number, not a list");
  EXPECT_EQ(refusal("pen(1, soft)"), "1: pen: a soft pen is wider than 1");
  EXPECT_EQ(refusal(std::string(1000, '[')), "17: this is nested too deep");
}

TEST(Component, ValuesFromCppAreCheckedWhenItMakesItsBehaviour) {
  EXPECT_THROW(Choice<Brush>(Pen{.width = 0}).make(), Error);
  EXPECT_THROW(Choice<Brush>(Pen{.width = 1, .soft = true}).make(), Error);
  EXPECT_THROW(Choice<Brush>(Spray{.strength = std::numeric_limits<double>::infinity()}).make(),
               Error);
  EXPECT_EQ(Choice<Brush>(Pen{.width = 5}).make()->draws(), "line of 5");
}

TEST(Component, DifferencesNameTheField) {
  EXPECT_EQ(
      differences(Choice<Brush>(Pen{}), Choice<Brush>(Pen{.width = 4, .ink = {.density = 0.25F}}),
                  "saved", "given"),
      (std::vector<std::string>{"pen.width: 2 saved, 4 given",
                                "pen.ink.density: 1 saved, 0.25 given"}));
  EXPECT_EQ(differences(Choice<Brush>(Pen{}), Choice<Brush>(Spray{2}), "saved", "given"),
            (std::vector<std::string>{"pen saved, spray(2) given"}));
}

TEST(Component, HelpAndPythonFollowFromTheList) {
  EXPECT_EQ(help(millrace::value_type(Ink())),
            "ink: What a brush is dipped in (Ink in Python)\n"
            "  ink(colour=red, density=0.5)\n"
            "  colour red|deep-blue      What is seen [red]\n"
            "  density X                 Share of light that is held back (0 to 1) [0.5]\n");
  EXPECT_EQ(python_arguments(millrace::value_type(Spray())), "self, strength: float");
  EXPECT_THAT(python_arguments(millrace::value_type(Pen())),
              ::testing::HasSubstr("*, soft: bool = False, ink: Ink = Ink(density=1)"));
}

/// A name longer than most.
struct Calligraphy {
  static const ComponentName kName;
  void fields(FieldList& /*field*/) {}
  std::unique_ptr<Brush> make() const { return std::make_unique<TextBrush>("letters"); }
};
const ComponentName Calligraphy::kName = {"calligraphy_nib", "CalligraphyNib", "Draws letters"};

TEST(Component, AListOfAllHasItsSentencesInOneColumn) {
  EXPECT_EQ(help(brushes()),
            "  pen          Draws a line\n"
            "  spray        Draws drops\n");
  EXPECT_EQ(help(TableOf<Brush>("brush").add<Pen>().add<Calligraphy>()),
            "  pen              Draws a line\n"
            "  calligraphy_nib  Draws letters\n");
}

TEST(Component, HelpIsWrappedAtEightyColumns) {
  std::istringstream text(help(millrace::value_type(Pen())));
  for (std::string line; std::getline(text, line);) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_EQ(wrapped("one two " + std::string(50, 'x') + " three", 28, 28),
            "one two\n" + std::string(28, ' ') + std::string(50, 'x') + "\n" +
                std::string(28, ' ') + "three");
}

TEST(Component, AnotherProgramAddsToACopyOfTheTable) {
  TableOf<Brush> table("brush");
  table.add<Pen>();
  EXPECT_THROW(table.add<Pen>(), Error);
  EXPECT_THROW(parse("spray(2)", table), Mistake);
  table.add<Spray>();
  EXPECT_EQ(parse("spray(2)", table).size(), 1U);
}

TEST(Component, EachMemberIsListed) {
  const auto listed = [](auto it) { return millrace::value_type(it).fields(&it).size(); };
  EXPECT_EQ(num_members<Ink>(), listed(Ink()));
  EXPECT_EQ(num_members<Pen>(), listed(Pen()));
  EXPECT_EQ(num_members<Spray>(), listed(Spray()));
}

std::size_t below(std::size_t bound, std::mt19937& random) { return random() % bound; }

Pen random_pen(std::mt19937& random) {
  const auto number = [&random](double most) {
    return std::uniform_real_distribution<double>(1e-9, most)(random);
  };
  Pen pen{.width = static_cast<int>(2 + random() % 90), .soft = random() % 2 == 0};
  pen.pressure.from = number(0.5);
  pen.pressure.to = pen.pressure.from + number(0.5);
  pen.ink.density = static_cast<float>(number(1));
  if (random() % 2 == 0) pen.seed = static_cast<std::int64_t>(random()) - 1000;
  for (std::size_t i = below(3, random); i > 0; --i) pen.dashes.push_back(number(1e6));
  pen.life = {static_cast<double>(random() % 100),
              random() % 2 == 0 ? RunLength::Unit::kEpochs : RunLength::Unit::kSteps};
  if (pen.life.count == 0) pen.life = {};
  constexpr std::string_view kLetters = "ab ,()=\"\\'[].1";
  for (std::size_t i = below(6, random); i > 0; --i)
    pen.label += kLetters[random() % kLetters.size()];
  return pen;
}

TEST(Component, EveryValueComesBackThroughTextAndJson) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const Choice<Brush> pen = random_pen(random);
    EXPECT_EQ(read_one(text(pen)), pen) << text(pen);
    const Written json = written_json(json_text(pen), "a record");
    EXPECT_EQ(component_of(json, brushes()), pen) << json_text(pen);
  }
}

TEST(Component, NoTextBreaksTheReader) {
  std::mt19937 random(2);
  const std::vector<std::string> parts = {"pen",  "spray", "ink",  "(",     ")",    "[",    "]",
                                          "{",    "}",     ",",    "=",     "..",   "\"",   "'",
                                          "\\",   "3",     "-1",   "1e999", "none", "true", "5ep",
                                          "soft", "seed",  "\x01", "\xff",  " "};
  for (int i = 0; i < 10000; ++i) {
    std::string text;
    for (std::size_t n = below(12, random); n > 0; --n) text += parts[random() % parts.size()];
    try {
      read(text);
    } catch (const Mistake& mistake) {
      EXPECT_LE(mistake.begin, text.size()) << text;
    }
  }
}

}  // namespace component_test
}  // namespace millrace
