// What settings say of a difference, and what is kept of them.
#include "trainer/setting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/base/error.h"
#include "trainer/detail/described_options.h"

namespace millrace::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> differences(const std::vector<Setting>& own,
                                     const std::vector<Setting>& other) {
  return setting_differences(own, "in process 0", other, "in process 1");
}

TEST(Setting, ADifferenceNamesBothValues) {
  EXPECT_THAT(differences({{.name = "--mean", .value = "0.1"}, {.name = "--std", .value = "1"}},
                          {{.name = "--mean", .value = "0.9"}, {.name = "--std", .value = "1"}}),
              ElementsAre("--mean: 0.1 in process 0, 0.9 in process 1"));
  EXPECT_THAT(differences({{.name = "--init"}}, {{.name = "--init", .value = "a"}}),
              ElementsAre("--init: none in process 0, a in process 1"));
}

TEST(Setting, NumbersAreComparedAsNumbers) {
  const auto differ = [](const char* one, const char* other) {
    return !differences({{.name = "x", .value = one}}, {{.name = "x", .value = other}}).empty();
  };
  EXPECT_FALSE(differ("0.10", "0.1"));
  EXPECT_FALSE(differ("1e-1", "0.1"));
  EXPECT_TRUE(differ("0.1", "0.10001"));
  EXPECT_TRUE(differ("18446744073709551615", "18446744073709551614")) << "more than a double holds";
  EXPECT_TRUE(differ("0.1", "x"));
}

TEST(Setting, DefaultsThatFollowFromAnotherSettingAreNotNamedWithIt) {
  const std::vector<Setting> sgd = {{.name = "--optimizer", .value = "sgd", .is_given = false},
                                    {.name = "--lr", .value = "0.1", .is_given = false}};
  const std::vector<Setting> adam = {{.name = "--optimizer", .value = "adam"},
                                     {.name = "--lr", .value = "0.001", .is_given = false}};
  EXPECT_THAT(differences(sgd, adam), ElementsAre(HasSubstr("--optimizer: sgd")));
  const std::vector<Setting> other = {{.name = "--lr", .value = "0.2", .is_given = false}};
  EXPECT_THAT(differences(sgd, other), ElementsAre(HasSubstr("--lr: 0.1")));
}

TEST(Setting, AFileIsItsContent) {
  const auto file = [](const char* path, const char* digest) {
    return std::vector<Setting>{{.name = "--init", .value = path, .digest = digest}};
  };
  EXPECT_THAT(differences(file("a", "1234"), file("b", "1234")), IsEmpty());
  EXPECT_THAT(
      differences(file("a", "1234"), file("a", "5678")),
      ElementsAre("--init: a (SHA-256 1234...) in process 0, a (SHA-256 5678...) in process "
                  "1"));
  EXPECT_THAT(differences(file("a", "1234"), file("a", "")), IsEmpty()) << "another host's";
  EXPECT_THAT(differences(file("a", ""), file("b", "5678")),
              ElementsAre(HasSubstr("a in process")));
}

TEST(Setting, ACheckpointKeepsThoseOfTheRun) {
  const std::vector<Setting> all = {
      {.name = "--mean", .value = "0.5", .is_given = false, .digest = "12"},
      {.name = "--epochs", .value = "3", .scope = SettingScope::kStart},
      {.name = "--run-dir", .value = "run", .scope = SettingScope::kCall},
      {.name = "--threads", .value = "8", .scope = SettingScope::kProcess}};
  const auto kept = settings_from_json(settings_to_json(all));
  ASSERT_EQ(2U, kept.size());
  EXPECT_EQ("--mean", kept[0].name);
  EXPECT_EQ("0.5", kept[0].value);
  EXPECT_EQ("12", kept[0].digest);
  EXPECT_FALSE(kept[0].is_given);
  EXPECT_EQ(SettingScope::kStart, kept[1].scope);
  for (const char* text : {"", "{}", "[1]", R"([["a","b",9,1,""]])", R"([["a","b",0,2,""]])"}) {
    if (std::string(text) == "{}") continue;  // no setting
    EXPECT_THROW(settings_from_json(text), Error) << text;
  }
}

// The fields of the structs are counted by the compiler; here, that they are told apart.
TEST(Setting, OptionsOfTheLibraryAreDescribedByTheirNames) {
  TrainOptions options;
  const auto usual = detail::describe(options);
  options.optimizer.momentum = 0.5F;
  options.schedule.milestones = {1.0, 2.0};
  options.schedule.kind = ScheduleKind::kCosine;
  options.precision = nn::Precision::kFloat32;
  options.clip.norm = 1.0;
  EXPECT_THAT(setting_differences(usual, "before", detail::describe(options), "now"),
              ElementsAre("precision: bf16 before, fp32 now", "clip.norm: 0 before, 1 now",
                          "optimizer.momentum: 0 before, 0.5 now",
                          "schedule.kind: constant before, cosine now",
                          "schedule.milestones: none before, 1,2 now"));
}

}  // namespace
}  // namespace millrace::trainer
