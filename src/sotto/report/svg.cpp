#include "sotto/report/svg.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "sotto/core/files/text_file.h"

namespace sotto::report {

namespace {

// One decimal is a fraction of a pixel; fewer characters keep pages small.
std::string number(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string points_text(const std::vector<Point>& points) {
  std::string text;
  for (const Point& point : points) {
    if (!text.empty()) text += ' ';
    text += number(point.x) + "," + number(point.y);
  }
  return text;
}

std::string class_text(std::string_view classes) {
  return classes.empty() ? std::string() : fmt::format(" class=\"{}\"", classes);
}

// Widths in shares of the font's size: those of DejaVu Sans, the widest of the usual fonts, so that
// a text is never longer than estimated.
double width_of(char32_t letter) {
  if (letter >= 0x1100) return letter >= 0x2E80 ? 1.0 : 0.7;
  if (letter >= '0' && letter <= '9') return 0.64;
  const auto is_one_of = [&](std::string_view letters) {
    return letter < 0x80 && letters.find(static_cast<char>(letter)) != std::string_view::npos;
  };
  if (is_one_of("iljI.,:;'|! ")) return 0.32;
  if (is_one_of("frt()[]-/")) return 0.4;
  if (is_one_of("mwMW@%+=_")) return 0.95;
  if (letter >= 'A' && letter <= 'Z') return 0.72;
  return 0.62;
}

// Calls `use` with each character of a UTF-8 text and the offset after it.
template <class Use>
void for_each_letter(std::string_view text, const Use& use) {
  for (size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    char32_t letter = length == 1 ? lead : lead & (0xFFU >> (length + 1));
    for (size_t i = 1; i < length && at + i < text.size(); ++i)
      letter = letter << 6U | (static_cast<unsigned char>(text[at + i]) & 0x3FU);
    at = std::min(at + length, text.size());
    use(letter, at);
  }
}

constexpr std::string_view kLight =
    "--ink:#1c2530;--muted:#5b6774;--grid:#e3e7ec;--axis:#a9b3be;--band:#f1f4f7;--surface:#ffffff;"
    "--c0:#1f6fb5;--c1:#c4500c;--c2:#0a8567;--c3:#9c4a8b;--c4:#94700a;--c5:#50606f";
constexpr std::string_view kDark =
    "--ink:#e6ebf0;--muted:#9aa7b4;--grid:#2c3641;--axis:#5d6a77;--band:#1f2831;--surface:#171e26;"
    "--c0:#5eb0f2;--c1:#f58a4b;--c2:#3fc7a3;--c3:#d993c8;--c4:#dbb53e;--c5:#a8b6c4";

constexpr std::array<std::string_view, kNumStyles> kDashes = {"none",    "7 3", "2 3",
                                                              "9 3 2 3", "4 2", "12 4"};

std::string element_of(const Figure& figure, const Drawing& drawing, std::string_view classes) {
  return fmt::format(
      "<svg class=\"{}\" role=\"img\" viewBox=\"0 0 {} {}\">\n<title>{}</title>\n"
      "<desc>{}</desc>\n{}</svg>\n",
      classes, number(drawing.width()), number(drawing.height()), escape_xml(figure.title),
      escape_xml(figure.description), drawing.body());
}

}  // namespace

bool Box::overlaps(const Box& other) const {
  return x < other.right() && other.x < right() && y < other.bottom() && other.y < bottom();
}

std::string escape_xml(std::string_view text) {
  std::string escaped;
  const bool is_valid = is_utf8(text);
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    switch (letter) {
      case '&': escaped += "&amp;"; continue;
      case '<': escaped += "&lt;"; continue;
      case '>': escaped += "&gt;"; continue;
      case '"': escaped += "&quot;"; continue;
      case '\'': escaped += "&#39;"; continue;
      default: break;
    }
    if (code >= 0x80 && !is_valid) {
      // A file name need not be UTF-8.
      escaped += "\xEF\xBF\xBD";
    } else if (code >= 0x20 || letter == '\n' || letter == '\t') {
      escaped += letter;
    }
  }
  return escaped;
}

double text_width(std::string_view text, double size) {
  double width = 0.0;
  for_each_letter(text, [&](char32_t letter, size_t) { width += width_of(letter); });
  return width * size;
}

std::string fit_text(std::string_view text, double size, double max_width) {
  if (text_width(text, size) <= max_width) return std::string(text);
  double width = size;  // of "…"
  size_t kept = 0;
  for_each_letter(text, [&](char32_t letter, size_t end) {
    width += width_of(letter) * size;
    if (width <= max_width) kept = end;
  });
  return std::string(text.substr(0, kept)) + "…";
}

void Drawing::line(Point from, Point to, std::string_view classes) {
  body_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"{}/>\n", number(from.x),
                       number(from.y), number(to.x), number(to.y), class_text(classes));
}

void Drawing::box(const Box& box, std::string_view classes) {
  body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}/>\n", number(box.x),
                       number(box.y), number(box.width), number(box.height), class_text(classes));
}

void Drawing::polyline(const std::vector<Point>& points, std::string_view classes) {
  body_ += fmt::format("<polyline points=\"{}\"{}/>\n", points_text(points), class_text(classes));
}

void Drawing::polygon(const std::vector<Point>& points, std::string_view classes) {
  body_ += fmt::format("<polygon points=\"{}\"{}/>\n", points_text(points), class_text(classes));
}

void Drawing::marker(Point at, size_t style, double radius) {
  const std::string fill = fmt::format("dot f{}", style % kNumStyles);
  const auto around = [&](std::initializer_list<Point> corners) {
    std::vector<Point> points;
    for (const Point& corner : corners)
      points.push_back({at.x + corner.x * radius, at.y + corner.y * radius});
    polygon(points, fill);
  };
  switch (style % kNumStyles) {
    case 0:
    case 5:
      body_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" class=\"{}\"/>\n", number(at.x),
                           number(at.y), number(radius),
                           style % kNumStyles == 0 ? fill : std::string("ring s5"));
      break;
    case 1: around({{-0.9, -0.9}, {0.9, -0.9}, {0.9, 0.9}, {-0.9, 0.9}}); break;
    case 2: around({{0.0, -1.3}, {1.3, 0.0}, {0.0, 1.3}, {-1.3, 0.0}}); break;
    case 3: around({{0.0, -1.2}, {1.15, 0.9}, {-1.15, 0.9}}); break;
    default:
      around({{-0.4, -1.2},
              {0.4, -1.2},
              {0.4, -0.4},
              {1.2, -0.4},
              {1.2, 0.4},
              {0.4, 0.4},
              {0.4, 1.2},
              {-0.4, 1.2},
              {-0.4, 0.4},
              {-1.2, 0.4},
              {-1.2, -0.4},
              {-0.4, -0.4}});
  }
}

void Drawing::text(const SvgText& text) {
  const char* const anchor = text.anchor == Anchor::kStart    ? ""
                             : text.anchor == Anchor::kMiddle ? " text-anchor=\"middle\""
                                                              : " text-anchor=\"end\"";
  body_ += fmt::format("<text x=\"{}\" y=\"{}\"{}{}>{}</text>\n", number(text.at.x),
                       number(text.at.y), anchor, class_text(text.classes), escape_xml(text.text));
}

void Drawing::begin_group(std::string_view tooltip) {
  body_ += fmt::format("<g><title>{}</title>\n", escape_xml(tooltip));
}

void Drawing::end_group() {
  body_ += "</g>\n";
}

std::string inline_svg(const Figure& figure) {
  if (figure.narrow.width() <= 0.0) return element_of(figure, figure.drawing, "chart");
  return element_of(figure, figure.drawing, "chart for-wide") +
         element_of(figure, figure.narrow, "chart for-narrow");
}

std::string svg_file(const Figure& figure) {
  constexpr double kMargin = 16.0;
  constexpr double kTitleHeight = 30.0;
  const double width = figure.drawing.width() + 2.0 * kMargin;
  const double height = figure.drawing.height() + 2.0 * kMargin + kTitleHeight;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" width=\"{0}\" "
      "height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n<title>{2}</title>\n<desc>{3}</desc>\n"
      "<style>{4}</style>\n<rect width=\"{0}\" height=\"{1}\" class=\"surface\"/>\n"
      "<text x=\"{5}\" y=\"{6}\" class=\"title\">{2}</text>\n"
      "<g transform=\"translate({5} {7})\">\n{8}</g>\n</svg>\n",
      number(width), number(height), escape_xml(figure.title), escape_xml(figure.description),
      chart_style(), number(kMargin), number(kMargin + 14.0), number(kMargin + kTitleHeight),
      figure.drawing.body());
}

std::string chart_style() {
  std::string style = fmt::format(
      ":root{{{0}}}\n@media (prefers-color-scheme:dark){{:root{{{1}}}}}\n"
      "@media print{{:root{{{0}}}}}\n",
      kLight, kDark);
  style +=
      ".chart{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,"
      "'DejaVu Sans',sans-serif;font-size:12px;font-variant-numeric:tabular-nums;"
      "print-color-adjust:exact;-webkit-print-color-adjust:exact}\n"
      ".chart text{fill:var(--ink)}.chart .muted{fill:var(--muted)}"
      ".chart .strong{font-weight:600}.chart .title{font-size:15px;font-weight:600}\n"
      ".chart .surface{fill:var(--surface)}.chart .band{fill:var(--band)}\n"
      ".chart .grid{stroke:var(--grid);stroke-width:1}.chart .axis{stroke:var(--axis);"
      "stroke-width:1}\n"
      ".chart .series{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}"
      ".chart .faint{stroke-width:1;opacity:.38}\n"
      ".chart .limit{stroke:var(--ink);stroke-width:1.2;stroke-dasharray:5 3}"
      ".chart .mark{stroke-width:1.2;stroke-dasharray:2 2}\n"
      ".chart .leader{stroke:var(--axis);stroke-width:1}"
      ".chart .dot{stroke:var(--surface);stroke-width:1}"
      ".chart .ring{fill:var(--surface);stroke-width:2}\n"
      ".chart .area{stroke:var(--surface);stroke-width:.5}"
      ".chart .halo{paint-order:stroke;stroke:var(--surface);stroke-width:3px;"
      "stroke-linejoin:round}\n";
  for (size_t i = 0; i < kNumStyles; ++i)
    style += fmt::format(
        ".chart .s{0}{{stroke:var(--c{0})}}.chart .f{0}{{fill:var(--c{0})}}"
        ".chart .d{0}{{stroke-dasharray:{1}}}\n",
        i, kDashes[i]);
  return style;
}

}  // namespace sotto::report
