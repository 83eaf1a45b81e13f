//! Customers' names in their native scripts, and their regions.

/// A region with its own name order: country, IANA timezone, language, city, given and family names.
pub struct Region {
    pub country: &'static str,
    pub timezone: &'static str,
    pub language: &'static str,
    pub city: &'static str,
    pub given: &'static [&'static str],
    pub family: &'static [&'static str],
    /// Whether the family name comes first without a space, as in Chinese.
    pub joined: bool,
}

const fn region(
    locale: [&'static str; 4],
    given: &'static [&'static str],
    family: &'static [&'static str],
    joined: bool,
) -> Region {
    Region { country: locale[0], timezone: locale[1], language: locale[2], city: locale[3], given, family, joined }
}

pub const REGIONS: &[Region] = &[
    region(
        ["DE", "Europe/Berlin", "de", "Köln"],
        &["Jürgen", "Käthe", "Lena", "Malte", "Sören", "Zoë"],
        &["Groß", "Müller-Lüdenscheidt", "Schäfer", "von der Heide", "Weiß"],
        false,
    ),
    region(
        ["GB", "Europe/London", "en", "Leeds"],
        &["Amelia", "George", "Siân", "Noah", "Olivia", "Rhys"],
        &["O'Brien", "Smith-Jones", "Llewellyn", "Okafor", "Taylor"],
        false,
    ),
    region(
        ["FR", "Europe/Paris", "fr", "Orléans"],
        &["Chloé", "François", "Hélène", "Loïc", "Noémie"],
        &["d'Arcy", "Lefèvre", "Garçon", "Saint-Exupéry"],
        false,
    ),
    region(
        ["PL", "Europe/Warsaw", "pl", "Łódź"],
        &["Łukasz", "Małgorzata", "Świętosława", "Żaneta"],
        &["Dąbrowski", "Wójcik", "Źrebiec"],
        false,
    ),
    region(
        ["EG", "Africa/Cairo", "ar", "القاهرة"],
        &["أحمد", "فاطمة", "محمد", "ليلى", "يوسف", "نور"],
        &["الهاشمي", "عبد الرحمن", "حداد", "المصري"],
        false,
    ),
    region(
        ["IL", "Asia/Jerusalem", "he", "חיפה"],
        &["נועה", "דוד", "תמר", "יונתן", "שירה"],
        &["כהן", "לוי", "בן־דוד", "מזרחי"],
        false,
    ),
    region(
        ["CN", "Asia/Shanghai", "zh", "上海"],
        &["伟", "秀英", "小明", "丽华", "子涵"],
        &["王", "李", "欧阳", "张", "𠮷田"],
        true,
    ),
    region(["JP", "Asia/Tokyo", "ja", "京都"], &["さくら", "健太", "陽菜", "蓮"], &["佐藤", "髙橋", "渡邉"], true),
    region(["KR", "Asia/Seoul", "ko", "부산"], &["민준", "서연", "지우"], &["김", "남궁", "박"], true),
    region(
        ["IN", "Asia/Kolkata", "hi", "मुंबई"],
        &["आरव", "दीक्षा", "प्रिया", "श्रीनिवास"],
        &["शर्मा", "कृष्णमूर्ति", "सिंह"],
        false,
    ),
    // Letters with combining marks as separate code points (decomposed), as some keyboards send them.
    region(
        ["VN", "Asia/Ho_Chi_Minh", "vi", "Hue\u{302}\u{301}"],
        &["Thu\u{309}y", "Nguye\u{302}\u{303}n", "A\u{301}nh", "Du\u{31b}o\u{31b}ng"],
        &["Tra\u{302}\u{300}n", "Le\u{302}", "Pha\u{323}m"],
        false,
    ),
    region(
        ["GR", "Europe/Athens", "el", "Θεσσαλονίκη"],
        &["Ελένη", "Γιώργος", "Σοφία"],
        &["Παπαδόπουλος", "Οικονόμου"],
        false,
    ),
    region(
        ["UA", "Europe/Kyiv", "uk", "Львів"],
        &["Олександр", "Їжакевич", "Соломія"],
        &["Шевченко", "Кравець"],
        false,
    ),
];

/// Valid but unusual names. The first users of every day have them, so that all of them always occur.
pub const UNUSUAL_NAMES: &[&str] = &[
    "Mia 🌻",
    "👩🏽‍🚀 Ayo Adébáyọ̀",
    "Bobby <b>Tables</b> & Sons \"Ltd\"",
    "{{ name }} {% if true %}",
    "\\u0041nna \\\\n Backslash",
    "Z͑ͫ̓ͪ̂ͫ̽a̴̛l̷̢g̨͜o͠",
    "مرحبا Anna שלום",
    "Doe, Jane; \"JD\" (sales) <jane@elsewhere.example>",
    "\u{2067}نور\u{2069} al-Din",
    "First\r\nBcc: someone@elsewhere.example",
    "Null O'Undefined",
    "🇺🇦🏳️‍🌈👨‍👩‍👧‍👦",
];

/// Returns a name of at least 400 characters: valid, but longer than a mail header line may be.
pub fn very_long_name() -> String {
    let title = "Ihre Durchlaucht Prinzessin ";
    let given = "Anna-Ørnulfine Þórdís Łucja Женевьева 明子 فاطمة ".repeat(8);
    format!("{title}{given}von und zu Hohenlohe-Waldenburg-Schillingsfürst")
}
