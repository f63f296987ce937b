#include "sotto/report/page.h"

#include <fmt/format.h>

namespace sotto::report {

namespace {

constexpr std::string_view kPageStyle =
    ":root{color-scheme:light dark;--page:#f4f6f8}\n"
    "@media (prefers-color-scheme:dark){:root{--page:#10161c}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"
    "'Segoe UI',Roboto,'Helvetica Neue',Arial,'DejaVu Sans',sans-serif;"
    "-webkit-text-size-adjust:100%}\n"
    "main{max-width:1120px;margin:0 auto;padding:36px 24px 48px}\n"
    "h1{font-size:28px;line-height:1.2;margin:0;overflow-wrap:anywhere}\n"
    "h2{font-size:19px;margin:40px 0 12px}\n"
    ".subtitle{color:var(--muted);margin:6px 0 0;overflow-wrap:anywhere}\n"
    "p{margin:0 0 14px;max-width:46em}\n"
    ".card,figure{background:var(--surface);border:1px solid var(--grid);border-radius:8px}\n"
    ".keys{display:grid;grid-template-columns:repeat(4,1fr);gap:12px;"
    "margin:24px 0 0}\n"
    ".keys div{padding:12px 14px;min-width:0}\n"
    ".keys dt{color:var(--muted);font-size:13px}.keys dd{margin:0}\n"
    ".keys .value{font-size:20px;font-weight:600;line-height:1.3;overflow-wrap:anywhere;"
    "font-variant-numeric:tabular-nums}\n"
    ".keys .detail{color:var(--muted);font-size:13px;line-height:1.35;overflow-wrap:anywhere}\n"
    ".figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));"
    "gap:16px;margin:0 0 16px}\n"
    "figure{margin:0;padding:16px 18px 12px;min-width:0}\n"
    ".wide{grid-column:1/-1}\n"
    "figcaption{margin:0 0 10px}\n"
    "figcaption strong{display:block;font-size:15px;font-weight:600}\n"
    "figcaption span{display:block;color:var(--muted);font-size:13px;line-height:1.4}\n"
    "svg.chart{display:block;width:100%;height:auto;max-width:520px}\n"
    ".wide svg.chart{max-width:none}svg.for-narrow{display:none}\n"
    ".table{padding:14px 18px 10px;margin:0 0 16px}\n"
    ".table h3{font-size:15px;margin:0 0 6px}\n"
    ".table p{color:var(--muted);font-size:13px;margin:0 0 8px}\n"
    ".scroll{overflow-x:auto}\n"
    "table{border-collapse:collapse;font-size:13.5px;min-width:100%}\n"
    "th,td{padding:5px 14px 5px 0;text-align:left;vertical-align:top;"
    "border-bottom:1px solid var(--grid)}\n"
    "tbody tr:last-child td{border-bottom:0}th{color:var(--muted);font-weight:500;"
    "white-space:nowrap}\n"
    ".number{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\n"
    "th:last-child,td:last-child{padding-right:0}\n"
    ".notice{padding:12px 18px;margin:20px 0 0;border-left:4px solid var(--c1)}\n"
    ".notice ul{margin:4px 0 0;padding-left:18px;overflow-wrap:anywhere}\n"
    "footer{color:var(--muted);font-size:13px;margin-top:40px}\n"
    "@media (max-width:600px){main{padding:20px 12px 32px}h1{font-size:23px}"
    ".keys{grid-template-columns:1fr 1fr;gap:8px}.keys .value{font-size:17px}"
    "figure,.table{padding:12px 12px 8px}svg.for-wide{display:none}svg.for-narrow{display:block}}\n"
    "@media print{:root{--page:#fff}body{font-size:11pt}main{max-width:none;padding:0}"
    "figure,.card,tr{break-inside:avoid}h2{break-after:avoid}.scroll{overflow:visible}"
    ".figures{grid-template-columns:1fr 1fr;gap:10px}.keys{grid-template-columns:repeat(4,1fr)}"
    "table{font-size:9pt}svg.for-wide{display:block}svg.for-narrow{display:none}}\n"
    "@page{margin:14mm}\n";

std::string key_figures_html(const std::vector<KeyFigure>& figures) {
  if (figures.empty()) return "";
  std::string html = "<dl class=\"keys\">\n";
  for (const KeyFigure& figure : figures) {
    const std::string key =
        figure.key.empty() ? "" : fmt::format(" data-figure=\"{}\"", escape_xml(figure.key));
    html += fmt::format("<div class=\"card\"><dt>{}</dt><dd class=\"value\"{}>{}</dd>",
                        escape_xml(figure.name), key, escape_xml(figure.value));
    if (!figure.detail.empty())
      html += fmt::format("<dd class=\"detail\">{}</dd>", escape_xml(figure.detail));
    html += "</div>\n";
  }
  return html + "</dl>\n";
}

struct BlockHtml {
  // A table with the same title needs none.
  const std::string& section;

  std::string operator()(const Paragraph& paragraph) const {
    return fmt::format("<p>{}</p>\n", escape_xml(paragraph.text));
  }
  std::string operator()(const Figure& figure) const {
    return fmt::format(
        "<figure{}><figcaption><strong>{}</strong><span>{}</span></figcaption>\n{}</figure>\n",
        figure.is_wide ? " class=\"wide\"" : "", escape_xml(figure.title),
        escape_xml(figure.description), inline_svg(figure));
  }
  std::string operator()(const DataTable& table) const {
    std::string html = "<div class=\"card table\">";
    if (!table.title.empty() && table.title != section)
      html += fmt::format("<h3>{}</h3>\n", escape_xml(table.title));
    if (!table.note.empty()) html += fmt::format("<p>{}</p>\n", escape_xml(table.note));
    return html + html_text(table) + "</div>\n";
  }
  std::string operator()(const Notice& notice) const {
    std::string html =
        fmt::format("<div class=\"card notice\"><strong>{}</strong>", escape_xml(notice.title));
    if (!notice.lines.empty()) html += "<ul>";
    for (const std::string& line : notice.lines)
      html += fmt::format("<li>{}</li>", escape_xml(line));
    return html + (notice.lines.empty() ? "</div>\n" : "</ul></div>\n");
  }
};

// Adjacent figures share a grid.
std::string blocks_html(const Section& section) {
  std::string html;
  bool is_in_figures = false;
  for (const Block& block : section.blocks) {
    const bool is_figure = std::holds_alternative<Figure>(block);
    if (is_figure != is_in_figures) html += is_figure ? "<div class=\"figures\">\n" : "</div>\n";
    is_in_figures = is_figure;
    html += std::visit(BlockHtml{section.title}, block);
  }
  return html + (is_in_figures ? "</div>\n" : "");
}

}  // namespace

Section& Page::add_section(const std::string& section_title) {
  sections.push_back({.title = section_title});
  return sections.back();
}

std::string Page::to_html() const {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n{3}\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>{0}</title>\n<link rel=\"icon\" href=\"data:,\"/>\n<style>\n{1}{2}</style>\n</head>\n"
      "<body>\n<main>\n<header><h1>{0}</h1>\n",
      escape_xml(title), chart_style(), kPageStyle, kPageMark);
  if (!subtitle.empty())
    html += fmt::format("<p class=\"subtitle\">{}</p>\n", escape_xml(subtitle));
  html += "</header>\n" + key_figures_html(key_figures);
  for (const Section& section : sections) {
    if (section.blocks.empty()) continue;
    html += "<section>\n";
    if (!section.title.empty()) html += fmt::format("<h2>{}</h2>\n", escape_xml(section.title));
    html += blocks_html(section) + "</section>\n";
  }
  if (!footer.empty()) html += fmt::format("<footer>{}</footer>\n", escape_xml(footer));
  return html + "</main>\n</body>\n</html>\n";
}

}  // namespace sotto::report
