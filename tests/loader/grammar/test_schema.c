/* JSON Schemas: documents that are accepted and blocked, and schemas that are refused. */
#include "loader/grammar/json_schema.h"

#include <stdlib.h>

#include "tests/support/grammar_case.h"
#include "tests/support/schema_validator.h"

static enum dgl_status compile(struct grammar_case *c, const char *schema, bool compact,
                               struct dgl_buf *warnings)
{
    const struct json_schema_options options = {.compact = compact, .warnings = warnings};
    grammar_case_begin(c);
    enum dgl_status status = json_schema_parse(c->b, dgl_str_of(schema), &options, &c->root);
    if (status == DGL_OK)
        status = grammar_compile(c->b, c->root, &c->grammar);
    if (status == DGL_OK)
        status = matcher_create(&c->t.log, c->grammar, &c->m);
    return status;
}

/* --- documents --- */

struct row {
    const char *schema;      /* names the case */
    const char *valid[12];   /* accepted to the end, byte by byte */
    const char *invalid[12]; /* not accepted, and invalid */
    const char *blocked[6];  /* not accepted although they are valid */
};
#define OBJ(properties) "{\"type\":\"object\",\"properties\":{" properties "}"
#define CLOSED          ",\"additionalProperties\":false"
#define DRAFT7          "\"$schema\":\"http://json-schema.org/draft-07/schema#\""
static const struct row rows[] = {
    {"{}", {"1", "\"a\"", "{\"a\":[1,null]}", "[]", "true", "-0.5e+10"}, {""}, {" 1", "1 "}},
    {"true", {"null", "[{}]"}, {""}, {NULL}},
    /* types */
    {"{\"type\":\"null\"}", {"null"}, {"0", "false", "\"\""}, {NULL}},
    {"{\"type\":\"boolean\"}", {"true", "false"}, {"0", "null", "\"true\""}, {NULL}},
    {"{\"type\":[\"integer\",\"string\"]}", {"1", "\"1\"", "-7"}, {"1.5", "null", "[]"}, {"1.0"}},
    {"{\"type\":\"integer\"}",
     {"0", "-0", "12345678901234567890"},
     {"1.5", "01", "+1"},
     {"1e3", "123456789012345678901"}},
    {"{\"type\":\"number\"}",
     {"0", "-1.25", "1e3", "1E-10", "0.00000000000000000001", "1e279"},
     {"1.", ".5", "\"1\""},
     {"1e300"}},
    /* strings */
    {"{\"type\":\"string\"}",
     {"\"\"", "\"\\u00e9\\n\\\\\"", "\"\xC3\xA9\"", "\"\\ud83d\\uDE00\"", "\"\\/\""},
     {"\"\\ud83d\"", "\"\\ude00\"", "\"\n\"", "\"\\x\"", "\"a", "'a'"},
     {NULL}},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
     {"\"ab\"", "\"\xF0\x9F\x98\x80\xC3\xA9x\"", "\"\\ud83d\\ude00\\u0041\"", "\"\\n\\n\\n\""},
     {"\"a\"", "\"abcd\"", "\"\"", "\"\\ud83d\\ude00\""},
     {NULL}},
    {"{\"type\":\"string\",\"minLength\":100000,\"maxLength\":100001}", {NULL}, {"\"a\""}, {NULL}},
    {"{\"type\":\"string\",\"pattern\":\"^a+$\"}",
     {"\"a\"", "\"aaa\""},
     {"\"\"", "\"ab\""},
     {"\"\\u0061\""}},
    {"{\"type\":\"string\",\"pattern\":\"b\"}",
     {"\"abc\"", "\"b\"", "\"\\\"b\\\\\\n\""},
     {"\"ac\"", "\"\""},
     {NULL}},
    {"{\"type\":\"string\",\"pattern\":\"^[a-z]+$\",\"minLength\":2,\"maxLength\":3}",
     {"\"ab\"", "\"abc\""},
     {"\"a\"", "\"abcd\"", "\"A1\""},
     {NULL}},
    {"{\"type\":\"string\",\"pattern\":\"^[a-c]{2,3}$\",\"maxLength\":20}",
     {"\"ab\"", "\"abc\""},
     {"\"a\""},
     {NULL}},
    {"{\"type\":\"string\",\"pattern\":\"^\\\"/$\"}",
     {"\"\\\"/\"", "\"\\\"\\/\""},
     {"\"/\""},
     {NULL}},
    {"{\"pattern\":\"^a$\"}", {"\"a\"", "1", "null", "{}"}, {"\"b\""}, {NULL}},
    /* formats */
    {"{\"type\":\"string\",\"format\":\"date\"}",
     {"\"2024-02-29\"", "\"2000-02-29\"", "\"2023-12-31\"", "\"0400-02-29\""},
     {"\"2023-02-29\"", "\"1900-02-29\"", "\"2023-13-01\"", "\"2023-04-31\"", "\"23-01-01\""},
     {"\"0000-01-01\""}},
    {"{\"type\":\"string\",\"format\":\"time\"}",
     {"\"23:59:59Z\"", "\"00:00:00.5+01:30\""},
     {"\"24:00:00Z\"", "\"12:00:00\"", "\"12:60:00Z\"", "\"12:00:00+24:00\""},
     {"\"12:00:00z\""}},
    {"{\"type\":\"string\",\"format\":\"date-time\"}",
     {"\"1985-04-12T23:20:50.52Z\""},
     {"\"1985-04-12\"", "\"1985-04-31T23:20:50Z\""},
     {"\"1985-04-12t23:20:50Z\""}},
    {"{\"type\":\"string\",\"format\":\"duration\"}",
     {"\"P3Y6M4DT12H30M5S\"", "\"PT1H\"", "\"P2W\""},
     {"\"P\"", "\"PT\"", "\"P1H\"", "\"P1YT\""},
     {NULL}},
    {"{\"type\":\"string\",\"format\":\"email\"}",
     {"\"joe.b@example.com\"", "\"a+b@x-y.org\""},
     {"\"joe\"", "\".a@b.com\"", "\"a..b@c.de\"", "\"a@-b.com\""},
     {"\"joe@localhost\""}},
    {"{\"type\":\"string\",\"format\":\"uuid\"}",
     {"\"2eb8aa08-AA98-11ea-b4aa-73b441d16380\""},
     {"\"2eb8aa08aa9811eab4aa73b441d16380\"", "\"2eb8aa08-aa98-11ea-b4aa-73b441d1638g\""},
     {NULL}},
    {"{\"type\":\"string\",\"format\":\"uri\"}",
     {"\"http://a.b/c?d#e\"", "\"mailto:a@b.c\"", "\"urn:x:y\"", "\"file:///a/b\""},
     {"\"//a.b\"", "\"a b\"", "\"http://a b\"", "\"abc\""},
     {NULL}},
    {"{\"type\":\"string\",\"format\":\"hostname\"}",
     {"\"www.example.com\"", "\"a\"", "\"a-b.c\""},
     {"\"-a\"", "\"a-\"", "\"a..b\"", "\"\""},
     {"\"xn--a.com\""}},
    {"{\"type\":\"string\",\"format\":\"ipv4\"}",
     {"\"127.0.0.1\"", "\"255.255.255.255\""},
     {"\"256.0.0.1\"", "\"1.2.3\"", "\"01.2.3.4\""},
     {NULL}},
    {"{\"type\":\"string\",\"format\":\"ipv6\"}",
     {"\"::\"", "\"::1\"", "\"1:2:3:4:5:6:7:8\"", "\"1::8\"", "\"::ffff:1.2.3.4\""},
     {"\"1:2:3:4:5:6:7\"", "\"1::2::3\"", "\"12345::\"", "\":1:2\""},
     {NULL}},
    {"{\"type\":\"string\",\"format\":\"uuid\",\"pattern\":\"^0\"}",
     {"\"0eb8aa08-aa98-11ea-b4aa-73b441d16380\""},
     {"\"1eb8aa08-aa98-11ea-b4aa-73b441d16380\""},
     {NULL}},
    {"{\"type\":\"string\",\"format\":\"phone\"}", {"\"anything\""}, {"1"}, {NULL}},
    /* numbers */
    {"{\"type\":\"integer\",\"minimum\":-12,\"maximum\":105}",
     {"-12", "0", "99", "105", "-9", "-0", "100"},
     {"-13", "106", "110", "200", "1000", "-100"},
     {NULL}},
    {"{\"type\":\"integer\",\"minimum\":7}",
     {"7", "10", "70", "99999999999999999999"},
     {"6", "0", "-7"},
     {NULL}},
    {"{\"type\":\"integer\",\"maximum\":-7}",
     {"-7", "-10", "-123"},
     {"-6", "0", "7", "-0"},
     {NULL}},
    {"{\"type\":\"integer\",\"exclusiveMinimum\":0,\"exclusiveMaximum\":10}",
     {"1", "9"},
     {"0", "-0", "10", "11"},
     {NULL}},
    {"{\"type\":\"integer\",\"minimum\":0,\"exclusiveMinimum\":true}",
     {"1", "10"},
     {"0", "-1"},
     {NULL}},
    {"{\"type\":\"integer\",\"minimum\":1.5,\"maximum\":3.5}", {"2", "3"}, {"1", "4"}, {NULL}},
    {"{\"type\":\"number\",\"minimum\":0,\"maximum\":1}",
     {"0", "1", "0.5", "1.000", "-0.0", "0.99999"},
     {"1.0001", "-0.1", "2", "10"},
     {"1e-1", "0.1e1"}},
    {"{\"type\":\"number\",\"exclusiveMinimum\":0,\"exclusiveMaximum\":0.25}",
     {"0.1", "0.2499", "0.001"},
     {"0", "0.0", "-0", "0.25", "0.2500", "0.3", "1"},
     {NULL}},
    {"{\"type\":\"number\",\"minimum\":-1.75,\"maximum\":-0.5}",
     {"-1", "-1.75", "-0.5", "-1.7500", "-0.51"},
     {"-0.49", "-1.76", "-2", "0", "1", "-0.4999"},
     {NULL}},
    {"{\"type\":\"number\",\"minimum\":1e2,\"maximum\":1.2e3}",
     {"100", "1200", "999.5"},
     {"99.9", "1200.1", "12000"},
     {NULL}},
    {"{\"type\":\"integer\",\"multipleOf\":7}", {"0", "7", "-14", "700"}, {"1", "8", "71"}, {NULL}},
    {"{\"type\":\"number\",\"multipleOf\":0.25}",
     {"0.25", "1.5", "-0.750", "3", "2.0"},
     {"0.3", "0.251", "1.55"},
     {NULL}},
    {"{\"type\":\"number\",\"multipleOf\":0.01,\"minimum\":0,\"maximum\":10}",
     {"0.01", "9.99", "10.00", "5"},
     {"0.001", "10.01"},
     {NULL}},
    {"{\"multipleOf\":2,\"allOf\":[{\"multipleOf\":3}],\"type\":\"integer\"}",
     {"6", "0", "12"},
     {"2", "3", "9"},
     {NULL}},
    /* constants */
    {"{\"const\":{\"a\":[1,\"x\"]}}",
     {"{\"a\":[1,\"x\"]}", "{ \"a\" : [ 1 , \"x\" ] }"},
     {"{\"a\":[1]}", "{}"},
     {NULL}},
    {"{\"enum\":[\"a\",\"ab\",1,null,\"\\n\"]}",
     {"\"a\"", "\"ab\"", "1", "null", "\"\\n\""},
     {"\"b\"", "2", "\"abc\""},
     {"1.0", "\"\\u0061\""}},
    {"{\"enum\":[1,2.5,\"a\",7],\"type\":\"integer\",\"minimum\":2}",
     {"7"},
     {"1", "2.5", "\"a\""},
     {NULL}},
    {"{\"enum\":[{\"a\":1},{\"a\":2}],\"properties\":{\"a\":{\"minimum\":2}}}",
     {"{\"a\":2}"},
     {"{\"a\":1}"},
     {NULL}},
    {"{\"enum\":[\"a\",\"b\"],\"allOf\":[{\"enum\":[\"b\",\"c\"]}]}",
     {"\"b\""},
     {"\"a\"", "\"c\""},
     {NULL}},
    /* objects */
    {OBJ("\"a\":{\"type\":\"integer\"},\"b\":{}") ",\"required\":[\"a\"]" CLOSED "}",
     {"{\"a\":1}", "{\"a\":1,\"b\":2}", "{ \"a\" : 1 , \"b\" : [] }", "{\n  \"a\": 1\n}"},
     {"{}", "{\"b\":1}", "{\"a\":1,\"c\":1}", "{\"a\":\"1\"}"},
     {"{\"b\":1,\"a\":1}", "{\"\\u0061\":1}"}},
    {OBJ("\"a\":{},\"b\":{},\"c\":{}") CLOSED "}",
     {"{}", "{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"c\":1}", "{\"a\":1,\"b\":1,\"c\":1}"},
     {"{\"d\":1}", "{\"a\":1,}", "{,\"a\":1}"},
     {"{\"c\":1,\"a\":1}"}},
    {OBJ("\"ab\":{\"type\":\"integer\"}") "}",
     {"{\"ab\":1}", "{\"a\":null}", "{\"ab\":1,\"abc\":2,\"x\":{}}", "{\"\":1}", "{\"\xC3\xA9\":1}",
      "{\"\\\"\":1}"},
     {"{\"ab\":\"x\"}", "{\"ab\":1,\"ab\":\"x\"}", "{\"\\u0061b\":\"x\"}"},
     {"{\"x\":1,\"ab\":1}"}},
    {OBJ("\"a/b\":{\"type\":\"integer\"},\"c\\nd\":{\"type\":\"null\"}") "}",
     {"{\"a/b\":1,\"c\\nd\":null}"},
     {"{\"a\\/b\":\"x\"}", "{\"c\\u000ad\":1}", "{\"c\\u000Ad\":1}"},
     {NULL}},
    {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}",
     {"{}", "{\"a\":1}", "{\"a\":1,\"b\":2}"},
     {"{\"a\":\"b\"}"},
     {NULL}},
    {"{\"type\":\"object\",\"required\":[\"x\"],\"additionalProperties\":{\"type\":\"null\"}}",
     {"{\"x\":null}", "{\"x\":null,\"y\":null}"},
     {"{}", "{\"y\":null}", "{\"x\":1}"},
     {NULL}},
    {"{\"type\":\"object\",\"patternProperties\":{\"^a\":{\"type\":\"integer\"},\"z$\":{"
     "\"minimum\":5}"
     "},\"additionalProperties\":false}",
     {"{\"a\":1}", "{\"az\":5,\"z\":\"x\"}", "{}"},
     {"{\"az\":4}", "{\"a\":\"x\"}", "{\"b\":1}", "{\"z\":4}"},
     {NULL}},
    {OBJ("\"ab\":{\"minimum\":3}") ",\"patternProperties\":{\"^a\":{\"type\":\"integer\"}}}",
     {"{\"ab\":3,\"b\":null}", "{\"ab\":3,\"ac\":0}"},
     {"{\"ab\":2}", "{\"ab\":\"x\"}", "{\"ac\":\"x\"}"},
     {NULL}},
    {OBJ("\"a\":{},\"bb\":{}") ",\"propertyNames\":{\"maxLength\":1}}",
     {"{\"a\":1}", "{\"a\":1,\"c\":1}"},
     {"{\"bb\":1}", "{\"cc\":1}"},
     {NULL}},
    {"{\"type\":\"object\",\"propertyNames\":{\"anyOf\":[{\"enum\":[\"x\",\"y\"]},{\"pattern\":\"^"
     "z\"}]}}",
     {"{\"x\":1}", "{\"zed\":1,\"y\":2}"},
     {"{\"a\":1}"},
     {NULL}},
    {OBJ("\"a\":{},\"b\":{},\"c\":{}") ",\"minProperties\":2" CLOSED "}",
     {"{\"a\":1,\"b\":1}", "{\"b\":1,\"c\":1}", "{\"a\":1,\"b\":1,\"c\":1}"},
     {"{}", "{\"a\":1}"},
     {NULL}},
    {OBJ("\"a\":{},\"b\":{},\"c\":{}") ",\"maxProperties\":1" CLOSED "}",
     {"{}", "{\"a\":1}", "{\"c\":1}"},
     {"{\"a\":1,\"b\":1}"},
     {NULL}},
    {"{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2}",
     {"{\"a\":1}", "{\"a\":1,\"b\":2}"},
     {"{}", "{\"a\":1,\"b\":2,\"c\":3}"},
     {NULL}},
    {OBJ("\"a\":{}") ",\"minProperties\":2}",
     {"{\"a\":1,\"b\":1}", "{\"a\":1,\"b\":1,\"c\":1}"},
     {"{}", "{\"a\":1}", "{\"b\":1}", "{\"b\":1,\"b\":2}"},
     {"{\"b\":1,\"c\":1}"}},
    {"{\"type\":\"object\",\"maxProperties\":0}", {"{}", "{ }"}, {"{\"a\":1}"}, {NULL}},
    {OBJ("\"a\":false,\"b\":{}") CLOSED "}", {"{}", "{\"b\":1}"}, {"{\"a\":1}"}, {NULL}},
    {OBJ("\"a\":{}") "}", {"{\"a\":1}"}, {"[]", "1"}, {NULL}},
    {"{\"properties\":{\"a\":{\"type\":\"null\"}}}",
     {"{\"a\":null}", "1", "[]"},
     {"{\"a\":1}"},
     {NULL}},
    /* arrays */
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}",
     {"[]", "[1]", "[ 1 , 2 ]", "[\n1,\n2]"},
     {"[1,]", "[,1]", "[\"a\"]", "[1 2]"},
     {NULL}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":2,\"maxItems\":3}",
     {"[1,2]", "[1,2,3]"},
     {"[]", "[1]", "[1,2,3,4]"},
     {NULL}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],\"items\":"
     "false}",
     {"[]", "[1]", "[1,\"a\"]"},
     {"[\"a\"]", "[1,2]", "[1,\"a\",1]"},
     {NULL}},
    {"{\"type\":\"array\",\"items\":[{\"type\":\"integer\"}],\"additionalItems\":{\"type\":"
     "\"null\"},"
     "\"minItems\":2}",
     {"[1,null]", "[1,null,null]"},
     {"[1]", "[1,1]"},
     {NULL}},
    {"{\"type\":\"array\",\"maxItems\":0}", {"[]", "[ ]"}, {"[1]"}, {NULL}},
    {"{\"type\":\"array\",\"uniqueItems\":true,\"maxItems\":1}", {"[]", "[1]"}, {""}, {NULL}},
    {"{\"type\":\"array\",\"items\":{},\"allOf\":[{\"prefixItems\":[{\"type\":\"null\"}]},{"
     "\"minItems\":1}]}",
     {"[null]", "[null,1]"},
     {"[]", "[1]"},
     {NULL}},
    /* combinations */
    {"{\"anyOf\":[{\"type\":\"integer\",\"minimum\":5},{\"type\":\"string\",\"maxLength\":1}]}",
     {"5", "\"a\""},
     {"4", "\"ab\"", "null"},
     {NULL}},
    {"{\"type\":\"integer\",\"anyOf\":[{\"minimum\":5},{\"maximum\":2}]}",
     {"5", "2"},
     {"3", "\"a\""},
     {NULL}},
    {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]}",
     {"1", "\"a\""},
     {"null"},
     {NULL}},
    {"{\"oneOf\":[" OBJ(
         "\"t\":{\"const\":\"a\"},\"x\":{\"type\":\"integer\"}") ",\"required\":[\"t\","
                                                                 "\"x\"]}," OBJ("\"t\":{\"const\":"
                                                                                "\"b\"}") ",\"requi"
                                                                                          "red\":["
                                                                                          "\"t\"]}]"
                                                                                          "}",
     {"{\"t\":\"a\",\"x\":1}", "{\"t\":\"b\",\"x\":null}"},
     {"{\"t\":\"a\"}", "{\"t\":\"c\"}", "{}"},
     {NULL}},
    {"{\"oneOf\":[{\"type\":\"integer\",\"maximum\":2},{\"type\":\"integer\",\"minimum\":4}]}",
     {"2", "4"},
     {"3"},
     {NULL}},
    {"{\"oneOf\":[{\"type\":\"string\",\"pattern\":\"^a\"},{\"type\":\"string\",\"pattern\":\"^b\"}"
     "]}",
     {"\"a\"", "\"bx\""},
     {"\"c\""},
     {NULL}},
    {"{\"oneOf\":[" OBJ("\"a\":{}") ",\"required\":[\"a\"]" CLOSED
                                    "}," OBJ("\"b\":{}") ",\"required\":[\"b\"]" CLOSED "}]}",
     {"{\"a\":1}", "{\"b\":1}"},
     {"{\"a\":1,\"b\":1}", "{}"},
     {NULL}},
    {"{\"oneOf\":[{\"type\":\"array\",\"maxItems\":1},{\"type\":\"array\",\"minItems\":2}]}",
     {"[]", "[1,2]"},
     {"1"},
     {NULL}},
    {"{\"allOf\":[" OBJ("\"a\":{\"type\":\"integer\"}") ",\"required\":[\"a\"]}," OBJ(
         "\"a\":{\"minimum\":"
         "3},\"b\":{\"type\":\"null\"}") "}]}",
     {"{\"a\":3,\"b\":null}", "{\"a\":4}"},
     {"{\"a\":2}", "{\"b\":null}", "{\"a\":3,\"b\":1}"},
     {NULL}},
    {"{\"allOf\":[{\"pattern\":\"a\"},{\"pattern\":\"b\"}],\"type\":\"string\"}",
     {"\"ab\"", "\"ba\""},
     {"\"a\"", "\"b\""},
     {NULL}},
    {"{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":"
     "{\"$ref\":"
     "\"#/$defs/n\"}},\"required\":[\"v\"],"
     "\"additionalProperties\":false}},\"$ref\":\"#/$defs/n\"}",
     {"{\"v\":1}", "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3}}}"},
     {"{\"v\":1,\"next\":{}}", "{\"next\":{\"v\":1}}"},
     {NULL}},
    {"{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#\"}]}}",
     {"[]", "[null,[null,[[]]]]"},
     {"[1]", "[[1]]"},
     {NULL}},
    {"{\"properties\":{\"a~b/c%\":{\"type\":\"null\"},\"d\":{\"$ref\":\"#/properties/"
     "a~0b~1c%25\"}},"
     "\"type\":\"object\"}",
     {"{\"d\":null}"},
     {""},
     {NULL}},
    {"{\"$ref\":\"#/$defs/"
     "a\",\"minimum\":2,\"$defs\":{\"a\":{\"type\":\"integer\",\"maximum\":4}}}",
     {"2", "4"},
     {"1", "5", "null"},
     {NULL}},
    {"{\"unevaluatedProperties\":true,\"if\":{},\"uniqueItems\":false}",
     {"1", "[1,1]"},
     {""},
     {NULL}},
    /* complements */
    {"{\"not\":false,\"dependentRequired\":{}}", {"1"}, {""}, {NULL}},
    {"{\"not\":{\"type\":[\"null\",\"array\",\"number\"]}}",
     {"\"a\"", "{}", "true"},
     {"null", "[]", "1", "1.5"},
     {NULL}},
    {"{\"type\":\"object\",\"not\":{\"required\":[\"a\",\"b\"]}}",
     {"{}", "{\"a\":1}", "{\"b\":1}", "{\"c\":1}"},
     {"{\"a\":1,\"b\":1}", "{\"b\":1,\"a\":1}", "{\"c\":1,\"a\":1,\"b\":1}"},
     {NULL}},
    {"{\"not\":{\"enum\":[\"a\",\"b\",3,null,true]}}",
     {"\"\"", "\"ab\"", "4", "2.5", "false", "{}", "30"},
     {"\"a\"", "\"b\"", "3", "3.0", "null", "true"},
     {"\"\\u0063\""}},
    {"{\"type\":\"string\",\"not\":{\"const\":\"a/\\n\"}}",
     {"\"a/\"", "\"a\\n\""},
     {"\"a/\\n\"", "\"a\\/\\u000A\"", "\"\\u0061/\\n\""},
     {NULL}},
    {"{\"not\":{\"minLength\":2}}", {"\"\"", "\"a\""}, {"\"ab\"", "1", "null"}, {NULL}},
    {"{\"type\":\"integer\",\"not\":{\"minimum\":3,\"maximum\":5}}",
     {"2", "6", "-1"},
     {"3", "5"},
     {NULL}},
    {"{\"not\":{\"not\":{\"type\":\"null\"}}}", {"null"}, {"1"}, {NULL}},
    {"{\"type\":\"integer\",\"not\":{\"anyOf\":[{\"maximum\":2},{\"minimum\":9}]}}",
     {"3", "8"},
     {"2", "9"},
     {NULL}},
    {OBJ("\"a\":{},\"b\":{}") ",\"not\":{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]}"
                              "}",
     {"{}", "{\"a\":2}", "{\"b\":1}", "{\"a\":\"1\",\"b\":1}"},
     {"{\"a\":1}", "{\"a\":1.0,\"b\":2}"},
     {NULL}},
    {OBJ("\"a\":{},\"b\":{}") ",\"dependentRequired\":{\"a\":[\"b\"]}}",
     {"{}", "{\"b\":1}", "{\"a\":1,\"b\":1}"},
     {"{\"a\":1}", "{\"a\":1,\"c\":1}"},
     {NULL}},
    {OBJ("\"a\":{},\"b\":{}") ",\"dependencies\":{\"a\":[\"b\"],\"b\":{\"properties\":{\"a\":{"
                              "\"type\":"
                              "\"null\"}}}}}",
     {"{}", "{\"b\":1}", "{\"a\":null,\"b\":1}"},
     {"{\"a\":null}", "{\"a\":1,\"b\":1}"},
     {NULL}},
    {OBJ("\"t\":{\"enum\":[\"x\",\"y\"]},\"v\":{}") ",\"required\":[\"t\"],\"if\":{\"properties\":{"
                                                    "\"t\":"
                                                    "{\"const\":\"x\"}}},\"then\":{\"required\":["
                                                    "\"v\"]},\"else\":{\"properties\":{\"v\":{"
                                                    "\"type\":\"null\"}}}}",
     {"{\"t\":\"x\",\"v\":1}", "{\"t\":\"y\"}", "{\"t\":\"y\",\"v\":null}"},
     {"{\"t\":\"x\"}", "{\"t\":\"y\",\"v\":1}", "{\"v\":1}"},
     {NULL}},
    {"{\"type\":\"object\",\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}]}",
     {"{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"c\":2}"},
     {"{}", "{\"a\":1,\"b\":1}", "{\"c\":1}"},
     {NULL}},
    {"{\"type\":\"integer\",\"oneOf\":[{\"minimum\":2},{\"maximum\":5},{\"enum\":[3,9]}]}",
     {"1", "6", "-4"},
     {"2", "5", "3", "9"},
     {NULL}},
    {"{\"type\":\"string\",\"oneOf\":[{\"maxLength\":3},{\"minLength\":2}]}",
     {"\"\"", "\"a\"", "\"abcd\""},
     {"\"ab\"", "\"abc\""},
     {NULL}},
    {"{\"type\":\"object\",\"oneOf\":[{\"properties\":{\"a\":{\"const\":1}}},{\"properties\":{"
     "\"a\":{\"const\":2}}}]}",
     {"{\"a\":1}", "{\"a\":2}"},
     {"{}", "{\"a\":3}", "{\"b\":1}"},
     {NULL}},
    {"{\"type\":\"object\",\"propertyNames\":{},\"oneOf\":[{\"minProperties\":1},{"
     "\"maxProperties\":0}]}",
     {"{}", "{\"a\":1}"},
     {""},
     {NULL}},
    {"{\"type\":\"object\",\"patternProperties\":{\"^.*$\":{\"type\":\"null\"}}}",
     {"{\"a\":null}"},
     {"{\"a\":1}"},
     {"{\"a\\n\":1}"}},
    {"{\"type\":\"number\",\"multipleOf\":7}",
     {"700000000000007", "14.0"},
     {"7.5", "15"},
     {"7000000000000007"}},
    {"{\"allOf\":[{\"enum\":[1,10,\"a\",null,[1,2],{\"b\":1,\"c\":[2]}]},{\"enum\":[1.0,1e1,{\"c\":"
     "[2.0],\"b\":1e0},[2,1],false,[]]}]}",
     {"1", "10", "{\"b\":1,\"c\":[2]}"},
     {"[1,2]", "\"a\"", "null", "false"},
     {NULL}},
    {"{\"$dopplergl-not\":[\"a\"],\"not\":{\"const\":\"b\"}}", {"\"a\"", "1"}, {"\"b\""}, {NULL}},
    {"{\"examples\":[{\"$id\":\"x\"}],\"default\":{\"id\":\"x\"},\"properties\":{\"id\":{\"const\":"
     "{\"$id\":"
     "\"x\"}},\"default\":{\"type\":\"null\"}},\"x\":{\"id\":\"x\"},\"if\":{\"type\":\"string\"},"
     "\"then\":{\"minLength\":2}}",
     {"\"ab\"", "1", "{\"id\":{\"$id\":\"x\"}}"},
     {"\"a\"", "{\"default\":1}"},
     {NULL}},
    {"{\"$schema\":\"https://json-schema.org/draft/2020-12/"
     "schema\",\"items\":{\"id\":\"x\"},\"if\":{\"type\":\"string\"},\"then\":{\"minLength\":2}}",
     {"\"ab\"", "1"},
     {"\"a\""},
     {NULL}},
    {"{\"properties\":{\"default\":{\"$anchor\":\"b\",\"type\":\"null\"}},\"anyOf\":[{\"$ref\":\"#"
     "b\"}]}",
     {"null"},
     {"1"},
     {NULL}},
    {"{\"type\":\"number\",\"minimum\":-1e300,\"maximum\":1e20}", {"1", "-5.5"}, {"\"a\""}, {NULL}},
    /* drafts */
    {"{" DRAFT7 ",\"definitions\":{\"a\":{\"type\":[\"string\",\"null\"]}},\"anyOf\":[{"
     "\"$ref\":\"#/definitions/a\",\"type\":\"null\",\"pattern\":3}]}",
     {"\"a\"", "null"},
     {"1"},
     {NULL}},
    {"{" DRAFT7 ",\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"}],\"items\":{\"type\":"
     "\"number\"}}",
     {"[]", "[1]", "[1,2]"},
     {"[\"a\"]"},
     {NULL}},
    {"{" DRAFT7 ",\"type\":\"object\",\"dependentRequired\":{\"a\":[\"b\"]},\"dependentSchemas\":{"
     "\"a\":false}}",
     {"{\"a\":1}"},
     {"1"},
     {NULL}},
    {"{\"$schema\":\"https://json-schema.org/draft/2019-09/schema\",\"$ref\":\"#/$defs/a\","
     "\"type\":\"null\",\"$defs\":{\"a\":{\"type\":[\"string\",\"null\"]}}}",
     {"null"},
     {"\"a\""},
     {NULL}},
    {"{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"const\":1,\"type\":\"boolean\","
     "\"not\":{\"enum\":[true]}}",
     {"false"},
     {"true", "1"},
     {NULL}},
};

static struct dgl_json_doc *parse(const char *text)
{
    struct dgl_json_doc *doc;
    return dgl_json_parse(NULL, "document", text, strlen(text), &doc) == DGL_OK ? doc : NULL;
}

/* Returns true if the independent validator knows the schema and the document. */
static bool is_judged(const char *schema, const char *text)
{
    static const char *const unknown[] = {
        "uniqueItems", "%25", "\"x\":", "#b", "\"id\":\"x\"", "$dopplergl-not"};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++)
        if (strstr(schema, unknown[i]))
            return false;
    struct dgl_json_doc *doc = parse(text);
    bool known = doc != NULL;
    dgl_json_destroy(&doc);
    return known;
}

static void check(struct grammar_case *c, const struct row *row, const char *text, bool accepted,
                  bool valid)
{
    bool ok = grammar_case_feed(c, text, strlen(text)) == GRAMMAR_ENDS;
    if (ok != accepted)
        fail_msg("%s: %s is %s", row->schema, text, ok ? "accepted" : "blocked");
    if (!is_judged(row->schema, text))
        return;
    struct dgl_json_doc *schema = parse(row->schema), *doc = parse(text);
    const char *wrong =
        schema_validate(dgl_json_root(schema), dgl_json_root(schema), dgl_json_root(doc));
    if (!wrong != valid)
        fail_msg("%s: the validator says of %s: %s", row->schema, text, wrong ? wrong : "valid");
    dgl_json_destroy(&schema);
    dgl_json_destroy(&doc);
}

static void test_documents(void **state)
{
    const struct row *row = *state;
    struct grammar_case c;
    if (compile(&c, row->schema, false, NULL) != DGL_OK)
        fail_msg("%s: %s", row->schema, c.t.text);
    for (size_t i = 0; i < 12 && row->valid[i]; i++)
        check(&c, row, row->valid[i], true, true);
    for (size_t i = 0; i < 12 && row->invalid[i]; i++)
        check(&c, row, row->invalid[i], false, false);
    for (size_t i = 0; i < 6 && row->blocked[i]; i++)
        check(&c, row, row->blocked[i], false, true);
    grammar_case_finish(&c);
}

/* --- random documents --- */

/* Appends one random byte that the matcher accepts. Returns false if there is none. */
static bool step(struct grammar_case *c, uint64_t *seed, struct dgl_buf *text)
{
    static const char often[] = "\"\"{}[]:,0123456789-.abcdefxyz \\en";
    unsigned start = (unsigned)test_rand(seed);
    for (unsigned i = 0; i < 16 + 256; i++) {
        bool ok;
        char byte = i < 16 ? often[test_rand(seed) % (sizeof(often) - 1)] : (char)(start + i);
        assert_int_equal(matcher_advance(c->m, &byte, 1, &ok), DGL_OK);
        if (ok) {
            dgl_buf_append(text, &byte, 1);
            return true;
        }
    }
    return false;
}

/* Appends a line for tests/python/check_schema.py, which compares with another validator. */
static void record(const char *schema, const struct dgl_buf *document)
{
    const char *path = getenv("DOPPLERGL_SCHEMA_RECORD");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f)
        return;
    fprintf(f, "[%s, ", schema);
    /* Whitespace of the document is blanks and line feeds outside of strings. */
    for (size_t i = 0; i < document->len; i++)
        fputc(document->p[i] == '\n' ? ' ' : document->p[i], f);
    fprintf(f, "]\n");
    fclose(f);
}

/* Random walks over the grammar, completed by the matcher, are valid documents. Equal additional
 * keys are possible and are left out: JSON has no meaning for them. */
static void test_random(void **state)
{
    const struct row *row = *state;
    struct grammar_case c;
    if (!is_judged(row->schema, "1"))
        return;
    struct dgl_json_doc *schema = parse(row->schema);
    if (compile(&c, row->schema, false, NULL) != DGL_OK)
        fail_msg("%s: %s", row->schema, c.t.text);
    for (uint64_t n = 0; n < 60; n++) {
        uint64_t seed = n;
        struct dgl_buf text = {0};
        struct dgl_json_doc *doc;
        struct test_log t;
        bool ok = true;
        matcher_reset(c.m);
        for (size_t i = 0; i < 3 * n && !(matcher_may_end(c.m) && test_rand(&seed) % 16 == 0); i++)
            if (!step(&c, &seed, &text))
                break;
        size_t walked = text.len;
        if (!matcher_completion(c.m, 200000, &text))
            fail_msg("%s, seed %d: no completion of %.*s", row->schema, (int)n, (int)walked,
                     text.p);
        if (text.len > walked)
            assert_int_equal(matcher_advance(c.m, text.p + walked, text.len - walked, &ok), DGL_OK);
        if (!ok || !matcher_may_end(c.m))
            fail_msg("%s, seed %d: the completion %s is wrong", row->schema, (int)n, text.p);
        test_log_init(&t, DGL_LOG_ERROR);
        if (dgl_json_parse(&t.log, "document", text.p, text.len, &doc) != DGL_OK) {
            if (!strstr(t.text, "occurs twice"))
                fail_msg("%s, seed %d: %s: %s", row->schema, (int)n, text.p, t.text);
        } else {
            const char *wrong =
                schema_validate(dgl_json_root(schema), dgl_json_root(schema), dgl_json_root(doc));
            if (wrong)
                fail_msg("%s, seed %d: %s violates %s", row->schema, (int)n, text.p, wrong);
            record(row->schema, &text);
        }
        dgl_json_destroy(&doc);
        dgl_buf_finish(&text);
    }
    dgl_json_destroy(&schema);
    grammar_case_finish(&c);
}

/* --- refused schemas --- */

struct wrong_row {
    const char *schema; /* names the case */
    enum dgl_status status;
    const char *parts[3];
};
static const struct wrong_row wrong_rows[] = {
    {"{\"items\":{\"minLength\":2000000}}",
     DGL_ERR_UNSUPPORTED,
     {"S: #/items: ", "minLength is 2000000"}},
    {"{\"oneOf\":[{\"const\":\"a\"},{\"format\":\"email\",\"const\":\"joe@localhost\"},{\"const\":"
     "\"joe@localhost\"}]}",
     DGL_ERR_UNSUPPORTED,
     {"S: #/oneOf: ", "branches 1 and 2"}},
    {"{\"enum\":[\"joe@localhost\"],\"oneOf\":[{\"format\":\"email\"},{\"minLength\":1}]}",
     DGL_ERR_UNSUPPORTED,
     {"S: #/oneOf: "}},
    {"{\"enum\":[[\"joe@localhost\"]],\"items\":{\"oneOf\":[{\"format\":\"email\"},{\"minLength\":"
     "1}]}}",
     DGL_ERR_INVALID_ARG,
     {"matches no text"}},
    {"{\"type\":\"string\",\"oneOf\":[{\"pattern\":\"a\"},{\"pattern\":\"b\"}]}",
     DGL_ERR_UNSUPPORTED,
     {"S: #/oneOf: ", "branches 0 and 1"}},
    {"{\"type\":\"array\",\"oneOf\":[{\"items\":{\"type\":\"null\"}},{\"items\":{\"type\":"
     "\"string\"}}]}",
     DGL_ERR_UNSUPPORTED,
     {"S: #/oneOf: ", "branches 0 and 1"}},
    {"{\"type\":\"string\",\"oneOf\":[{\"format\":\"hostname\"},{\"format\":\"ipv4\"}]}",
     DGL_ERR_UNSUPPORTED,
     {"S: #/oneOf: ", "branches 0 and 1"}},
    {"{\"not\":{\"type\":\"integer\"}}", DGL_ERR_UNSUPPORTED, {"S: #/not: ", "not supported"}},
    {"{\"not\":{\"pattern\":\"a\"}}", DGL_ERR_UNSUPPORTED, {"S: #/not: "}},
    {"{\"not\":{\"additionalProperties\":false}}", DGL_ERR_UNSUPPORTED, {"S: #/not: "}},
    {"{\"dependencies\":{\"a\":3}}", DGL_ERR_INVALID_ARG, {"#/dependencies/a"}},
    {"{\"if\":{\"format\":\"date\"},\"else\":{\"maxLength\":3}}", DGL_ERR_UNSUPPORTED, {"#/if"}},
    {"{\"allOf\":[{\"not\":{}}]}", DGL_ERR_INVALID_ARG, {"the root", "matches no text"}},
    {"{\"properties\":{\"a/b~\":{\"if\":{\"items\":{}},\"then\":{}}}}",
     DGL_ERR_UNSUPPORTED,
     {"#/properties/a~1b~0/if"}},
    {"{\"items\":[{},{\"contains\":{}}]}", DGL_ERR_UNSUPPORTED, {"#/items/1/contains"}},
    {"{\"uniqueItems\":true}", DGL_ERR_UNSUPPORTED, {"#/uniqueItems"}},
    {"{\"unevaluatedProperties\":false}", DGL_ERR_UNSUPPORTED, {"#/unevaluatedProperties"}},
    {"{\"$dynamicRef\":\"#a\"}", DGL_ERR_UNSUPPORTED, {"#/$dynamicRef"}},
    {"{\"extends\":{}}", DGL_ERR_UNSUPPORTED, {"#/extends"}},
    {"{\"$ref\":\"http://x/y\"}", DGL_ERR_UNSUPPORTED, {"#/$ref", "http://x/y"}},
    {"{\"$ref\":\"#/$defs/no\"}", DGL_ERR_INVALID_ARG, {"#/$ref", "#/$defs/no"}},
    {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":3}}", DGL_ERR_INVALID_ARG, {"#/$ref"}},
    {"{\"$ref\":\"#\"}", DGL_ERR_INVALID_ARG, {"S: #: ", "refers to itself"}},
    {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"allOf\":[{\"$ref\":\"#/$defs/a\"}]}}}",
     DGL_ERR_INVALID_ARG,
     {"refers to itself"}},
    {"{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", DGL_ERR_INVALID_ARG, {"left-recursive"}},
    {"{\"$defs\":{\"a\":{\"$id\":\"x\",\"$ref\":\"#/$defs/b\"},\"b\":{}},\"$ref\":\"#/$defs/a\"}",
     DGL_ERR_UNSUPPORTED,
     {"#/$defs/a/$ref", "$id"}},
    {"{\"items\":{\"$id\":\"x\"},\"if\":{\"type\":\"string\"},\"then\":{\"minLength\":2}}",
     DGL_ERR_UNSUPPORTED,
     {"#/if: ", "$id"}},
    {"{\"items\":{\"id\":\"x\"},\"if\":{\"type\":\"string\"},\"then\":{\"minLength\":2}}",
     DGL_ERR_UNSUPPORTED,
     {"#/if: ", "$id"}},
    {"{\"properties\":{\"enum\":{\"$id\":\"x\"}},\"if\":{\"type\":\"string\"},\"then\":{"
     "\"minLength\":2}}",
     DGL_ERR_UNSUPPORTED,
     {"#/if: ", "$id"}},
    {"{\"items\":{\"$id\":\"x\"},\"oneOf\":[{\"minimum\":1},{\"maximum\":2}]}",
     DGL_ERR_UNSUPPORTED,
     {"#/oneOf: ", "$id"}},
    {"{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":2}]}",
     DGL_ERR_UNSUPPORTED,
     {"#/oneOf", "branches 0 and 1"}},
    {"{\"pattern\":\"(?=a)\"}", DGL_ERR_UNSUPPORTED, {"#/pattern", "column 1", "look-around"}},
    {"{\"pattern\":\"(\"}", DGL_ERR_INVALID_ARG, {"#/pattern", "column 1"}},
    {"{\"pattern\":3}", DGL_ERR_INVALID_ARG, {"#/pattern", "regular expression"}},
    {"{\"patternProperties\":{\"(\":{}}}", DGL_ERR_INVALID_ARG, {"#/patternProperties/("}},
    {"{\"pattern\":\"^.*a.*$\",\"minLength\":100000}",
     DGL_ERR_UNSUPPORTED,
     {"#/pattern", "minLength"}},
    {"{\"pattern\":\"^(?:[\\\\wäöü]+\\\\s){0,199}$\",\"maxLength\":1000}",
     DGL_ERR_UNSUPPORTED,
     {"#/pattern", "maxLength"}},
    {"{\"type\":\"strin\"}", DGL_ERR_INVALID_ARG, {"#/type"}},
    {"{\"type\":[\"string\",3]}", DGL_ERR_INVALID_ARG, {"#/type/1"}},
    {"{\"required\":true}", DGL_ERR_INVALID_ARG, {"#/required", "names"}},
    {"{\"required\":[1]}", DGL_ERR_INVALID_ARG, {"#/required/0"}},
    {"{\"properties\":[]}", DGL_ERR_INVALID_ARG, {"#/properties"}},
    {"{\"properties\":{\"a\":1}}", DGL_ERR_INVALID_ARG, {"#/properties/a", "number"}},
    {"{\"anyOf\":[]}", DGL_ERR_INVALID_ARG, {"#/anyOf"}},
    {"{\"allOf\":{}}", DGL_ERR_INVALID_ARG, {"#/allOf"}},
    {"{\"enum\":3}", DGL_ERR_INVALID_ARG, {"#/enum"}},
    {"{\"minLength\":-1}", DGL_ERR_INVALID_ARG, {"#/minLength"}},
    {"{\"maxItems\":1.5}", DGL_ERR_INVALID_ARG, {"#/maxItems"}},
    {"{\"minItems\":3000}", DGL_ERR_UNSUPPORTED, {"#/minItems"}},
    {"{\"minimum\":\"1\"}", DGL_ERR_INVALID_ARG, {"#/minimum"}},
    {"{\"multipleOf\":0}", DGL_ERR_INVALID_ARG, {"#/multipleOf"}},
    {"{\"multipleOf\":1234567}", DGL_ERR_UNSUPPORTED, {"#/multipleOf"}},
    {"{\"exclusiveMinimum\":1.23456789012345678}", DGL_ERR_UNSUPPORTED, {"#/exclusiveMinimum"}},
    {"{\"type\":\"number\",\"minimum\":1e300}",
     DGL_ERR_UNSUPPORTED,
     {"#/minimum: ", "below 10^20"}},
    {"{\"type\":\"integer\",\"exclusiveMaximum\":-1e20}",
     DGL_ERR_UNSUPPORTED,
     {"#/exclusiveMaximum: ", "below 10^20"}},
    {"{\"minProperties\":2,\"type\":\"object\"}", DGL_ERR_UNSUPPORTED, {"#/minProperties"}},
    {"{\"prefixItems\":[{}],\"items\":[{}]}", DGL_ERR_INVALID_ARG, {"#/items"}},
    {"{\"propertyNames\":{\"oneOf\":[{},{}]}}", DGL_ERR_UNSUPPORTED, {"#/propertyNames/oneOf"}},
    {"{\"enum\":[\"a\"],\"const\":\"b\"}", DGL_ERR_INVALID_ARG, {"matches no text"}},
    {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}",
     DGL_ERR_INVALID_ARG,
     {"matches no text"}},
    {"{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}",
     DGL_ERR_INVALID_ARG,
     {"matches no text"}},
    {"{\"allOf\":[{\"enum\":[1,\"a\",{\"b\":[true]}]},{\"enum\":[{\"b\":[false]},2,\"b\"]}]}",
     DGL_ERR_INVALID_ARG,
     {"matches no text"}},
    {"{" DRAFT7 ",\"definitions\":{\"a\":{}},\"not\":{\"$ref\":\"#/definitions/a\",\"type\":"
     "\"string\"}}",
     DGL_ERR_INVALID_ARG,
     {"matches no text"}},
    {"{" DRAFT7 ",\"definitions\":{\"a\":{\"type\":[\"string\",\"number\"]}},\"oneOf\":[{\"$ref\":"
     "\"#/definitions/a\",\"type\":\"string\"},{\"$ref\":\"#/definitions/"
     "a\",\"type\":\"number\"}]}",
     DGL_ERR_INVALID_ARG,
     {"matches no text"}},
    {"false", DGL_ERR_INVALID_ARG, {"#: ", "false"}},
    {"3", DGL_ERR_INVALID_ARG, {"#: ", "number"}},
    {"{\"a\":", DGL_ERR_INVALID_ARG, {"S: ", "byte 6"}},
};

static void test_wrong(void **state)
{
    const struct wrong_row *row = *state;
    struct grammar_case c;
    grammar_case_begin(&c);
    c.budget.name = "S";
    const struct json_schema_options options = {.compact = true};
    enum dgl_status status = json_schema_parse(c.b, dgl_str_of(row->schema), &options, &c.root);
    if (status == DGL_OK)
        status = grammar_compile(c.b, c.root, &c.grammar);
    assert_refusal(&c.t, status, row->status, row->parts);
    grammar_case_finish(&c);
}

/* --- options --- */

static void test_compact(void **state)
{
    struct grammar_case c;
    (void)state;
    assert_int_equal(compile(&c, rows[1].schema, true, NULL), DGL_OK);
    assert_int_equal(grammar_case_feed(&c, "{\"a\":[1,{}]}", 12), GRAMMAR_ENDS);
    assert_int_equal(grammar_case_feed(&c, "{ \"a\":1}", 8), GRAMMAR_REJECTS);
    assert_int_equal(grammar_case_feed(&c, "[1, 2]", 6), GRAMMAR_REJECTS);
    grammar_case_finish(&c);
}

static void test_space(void **state)
{
    static const struct {
        const char *text;
        enum grammar_verdict verdict;
    } texts[] = {{"[ ]", GRAMMAR_ENDS},
                 {"[  ]", GRAMMAR_REJECTS},
                 {"[\n\n]", GRAMMAR_ENDS},
                 {"[\n\n\n]", GRAMMAR_REJECTS},
                 {"[\n\t ]", GRAMMAR_ENDS},
                 {"[\r\n]", GRAMMAR_REJECTS},
                 {"[\n                    ]", GRAMMAR_ENDS},
                 {"[\n                     ]", GRAMMAR_REJECTS}};
    struct grammar_case c;
    (void)state;
    assert_int_equal(compile(&c, "{}", false, NULL), DGL_OK);
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        if (grammar_case_feed(&c, texts[i].text, strlen(texts[i].text)) != texts[i].verdict)
            fail_msg("row %zu, wanted %d", i, texts[i].verdict);
    grammar_case_finish(&c);
}

static void test_warnings(void **state)
{
    struct grammar_case c;
    struct dgl_buf warnings = {0};
    (void)state;
    assert_int_equal(compile(&c,
                             "{\"properties\":{\"a\":{\"format\":\"phone\"},\"b\":{\"$ref\":"
                             "\"#/properties/a\"},\"c\":{\"format\":\"date\"}}}",
                             true, &warnings),
                     DGL_OK);
    assert_string_equal(warnings.p, "#/properties/a/format: the format \"phone\" is not checked\n");
    dgl_buf_finish(&warnings);
    grammar_case_finish(&c);
    warnings = (struct dgl_buf){0};
    assert_int_equal(compile(&c,
                             "{\"items\":{\"pattern\":\"^[a-z]+( [a-z]+)*$\",\"maxLength\":900000},"
                             "\"properties\":{\"a\":{\"pattern\":\"^a*$\",\"maxLength\":9}}}",
                             true, &warnings),
                     DGL_OK);
    assert_contains(warnings.p, "#/items/pattern: maxLength is lowered from 900000 to ");
    if (strchr(warnings.p, '\n')[1])
        fail_msg("more than one warning: %s", warnings.p);
    dgl_buf_finish(&warnings);
    grammar_case_finish(&c);
}

static void test_json_object(void **state)
{
    struct grammar_case c;
    (void)state;
    for (int object = 0; object < 2; object++) {
        grammar_case_begin(&c);
        assert_int_equal(json_value_grammar(c.b, object, false, &c.root), DGL_OK);
        assert_int_equal(grammar_compile(c.b, c.root, &c.grammar), DGL_OK);
        assert_int_equal(matcher_create(&c.t.log, c.grammar, &c.m), DGL_OK);
        assert_int_equal(grammar_case_feed(&c, "{\"a\": [1, {\"b\": null}]}", 23), GRAMMAR_ENDS);
        assert_int_equal(grammar_case_feed(&c, "[1]", 3), object ? GRAMMAR_REJECTS : GRAMMAR_ENDS);
        grammar_case_finish(&c);
    }
}

/* --- strict schemas --- */

struct strict_row {
    const char *schema;   /* names the case */
    const char *pointer;  /* NULL: it is accepted */
    const char *parts[2]; /* of the message */
};
#define STRICT(properties, required)                                                               \
    OBJ(properties) ",\"required\":[" required "],\"additionalProperties\":false}"
static const struct strict_row strict_rows[] = {
    {STRICT("", ""), NULL, {NULL}},
    {STRICT("\"a\":{\"type\":[\"string\",\"null\"]},\"b\":{\"anyOf\":[{\"type\":\"null\"}]}",
            "\"b\",\"a\""),
     NULL,
     {NULL}},
    {"{\"type\":\"array\"}", "#", {"the root"}},
    {"{\"anyOf\":[]}", "#", {"the root"}},
    {OBJ("") ",\"required\":[]}", "#", {"additionalProperties"}},
    {OBJ("") ",\"additionalProperties\":{}}", "#/additionalProperties", {"additionalProperties"}},
    {STRICT("\"a\":{},\"b\":{}", "\"a\""), "#/properties/b", {"required"}},
    {STRICT("\"a\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}}", "\"a\""),
     "#/properties/a/items",
     {"additionalProperties"}},
    {STRICT("\"a\":{\"oneOf\":[]}", "\"a\""), "#/properties/a/oneOf", {"not permitted"}},
    {STRICT("\"a\":{\"$ref\":\"#/$defs/x\"}", "\"a\"") "\b", "", {"S: "}},
};

static void test_strict(void **state)
{
    const struct strict_row *row = *state;
    struct test_log t;
    struct dgl_buf pointer = {0};
    test_log_init(&t, DGL_LOG_ERROR);
    enum dgl_status status =
        json_schema_check_strict(&t.log, "S", dgl_str_of(row->schema), &pointer);
    if (row->pointer) {
        assert_refusal(&t, status, DGL_ERR_INVALID_ARG, row->parts);
        assert_string_equal(pointer.p ? pointer.p : "", row->pointer);
    } else if (status != DGL_OK) {
        fail_msg("%s: %s", row->schema, t.text);
    }
    dgl_buf_finish(&pointer);
}

/* Each limit, reached and exceeded. */
static void test_strict_limits(void **state)
{
    static const struct {
        size_t count;
        const char *message;
    } limits[] = {{5000, "5,000 properties"}, {1000, "1,000 values"}};
    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (size_t more = 0; more < 2; more++) {
            struct test_log t;
            struct dgl_buf text = {0};
            size_t count = limits[i].count + more;
            test_log_init(&t, DGL_LOG_ERROR);
            dgl_buf_puts(&text, "{\"type\":\"object\",\"properties\":{");
            if (i)
                dgl_buf_puts(&text, "\"a\":{\"enum\":[");
            for (size_t k = 0; k < count; k++)
                dgl_buf_printf(&text, i ? "%s\"v%zu\"" : "%s\"p%zu\":{}", k ? "," : "", k);
            dgl_buf_puts(&text, i ? "]}},\"required\":[\"a\"" : "},\"required\":[\"p0\"");
            for (size_t k = 1; k < count && !i; k++)
                dgl_buf_printf(&text, ",\"p%zu\"", k);
            dgl_buf_puts(&text, "],\"additionalProperties\":false}");
            enum dgl_status status =
                json_schema_check_strict(&t.log, "S", (struct dgl_str){text.p, text.len}, NULL);
            assert_int_equal(status, more ? DGL_ERR_INVALID_ARG : DGL_OK);
            if (more)
                assert_contains(t.text, limits[i].message);
            dgl_buf_finish(&text);
        }
}

/* --- limits --- */

static void put_many(struct dgl_buf *text, const char *part, size_t count)
{
    for (size_t i = 0; i < count; i++)
        dgl_buf_puts(text, part);
}

struct limit_row {
    const char *name, *start, *part, *middle, *closing, *end;
    size_t count;
    enum dgl_status status;
    const char *message; /* or NULL */
};
#define LONG "0123456789012345678901234567890123456789012345678"
static const struct limit_row limit_rows[] = {
    {"nested arrays", "", "{\"items\":", "{}", "}", "", 60, DGL_OK, NULL},
    {"nested arrays, too deep", "", "{\"items\":", "{}", "}", "", 10000, DGL_ERR_INVALID_ARG, NULL},
    {"many anyOf in an allOf", "{\"allOf\":[{}", ",{\"anyOf\":[{\"minimum\":1},{\"maximum\":0}]}",
     "", "", "]}", 40, DGL_ERR_INVALID_ARG, NULL},
    {"a long enum", "{\"enum\":[0", ",\"abcdefgh\"", "", "", "]}", 10000, DGL_OK, NULL},
    {"more than 1 MB", "{\"description\":\"", "0123456789", "", "", "\"}", 110000,
     DGL_ERR_INVALID_ARG, NULL},
    {"a long text", "{\"description\":\"", "0123456789", "", "", "\"}", 100000, DGL_OK, NULL},
    {"names of many constants",
     "{\"propertyNames\":{\"pattern\":\"^(ab|cd|[0-9]{1,20})+$\",\"maxLength\":60},\"enum\":[0",
     ",{\"ab\":1,\"cd\":2}", "", "", "]}", 5000, DGL_OK, NULL},
    {"large complements", "{\"allOf\":[{}", ",{\"not\":{\"$ref\":\"#/$defs/a\"}}",
     "],\"$defs\":{\"a\":{\"enum\":[0", ",\"" LONG LONG LONG LONG "\"", "]}}}", 250,
     DGL_ERR_INVALID_ARG, "bytes of memory"},
};

static void test_limits(void **state)
{
    const struct limit_row *row = *state;
    struct grammar_case c;
    struct dgl_buf text = {0};
    dgl_buf_puts(&text, row->start);
    put_many(&text, row->part, row->count);
    dgl_buf_puts(&text, row->middle);
    put_many(&text, row->closing, row->count);
    dgl_buf_puts(&text, row->end);
    grammar_case_begin(&c);
    grammar_builder_destroy(&c.b);
    c.budget = grammar_budget(&c.t.log, "S", text.len);
    assert_int_equal(grammar_builder_create(&c.budget, &c.b), DGL_OK);
    const struct json_schema_options options = {.compact = false};
    enum dgl_status status =
        json_schema_parse(c.b, (struct dgl_str){text.p, text.len}, &options, &c.root);
    if (status == DGL_OK)
        status = grammar_compile(c.b, c.root, &c.grammar);
    if (status != row->status)
        fail_msg("status %d, wanted %d: %s", status, row->status, c.t.text);
    if (row->message)
        assert_contains(c.t.text, row->message);
    dgl_buf_finish(&text);
    grammar_case_finish(&c);
}

/* Lists of many constants are compared by hashes. Each row is two lists of numbers, or an array
 * with equal items in the last row. */
static void test_constants(void **state)
{
    static const struct {
        const char *start, *middle, *end;
        int from[2], to[2];
        bool compiles;
    } list_rows[] = {
        {"{\"allOf\":[{\"enum\":[-1",
         "]},{\"enum\":[-2",
         "]}]}",
         {0, 20000},
         {20000, 40000},
         false},
        {"{\"allOf\":[{\"enum\":[-1",
         "]},{\"enum\":[-1.0",
         "]}]}",
         {0, 20000},
         {20000, 40000},
         true},
        {"{\"const\":[-1", ",-2", "],\"uniqueItems\":true}", {0, 4000}, {4000, 8000}, true},
        {"{\"const\":[-1", ",-2", "],\"uniqueItems\":true}", {0, 10000}, {10001, 40000}, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(list_rows) / sizeof(*list_rows); i++) {
        struct grammar_case c;
        struct dgl_buf text = {0};
        for (int k = 0; k < 2; k++) {
            dgl_buf_puts(&text, k ? list_rows[i].middle : list_rows[i].start);
            for (int n = list_rows[i].from[k]; n < list_rows[i].to[k]; n++)
                dgl_buf_printf(&text, ",%d", n);
        }
        dgl_buf_puts(&text, list_rows[i].end);
        enum dgl_status status = compile(&c, text.p, false, NULL);
        if (status != (list_rows[i].compiles ? DGL_OK : DGL_ERR_INVALID_ARG))
            fail_msg("row %zu: status %d: %s", i, status, c.t.text);
        if (status != DGL_OK && !strstr(c.t.text, "matches no text"))
            fail_msg("row %zu: %s", i, c.t.text);
        dgl_buf_finish(&text);
        grammar_case_finish(&c);
    }
}

/* Objects with many properties, and a chain of references. */
static void test_large(void **state)
{
    struct grammar_case c;
    struct dgl_buf text = {0}, document = {0};
    (void)state;
    for (int required = 0; required < 2; required++) {
        int count = required ? 5000 : 400;
        text.len = document.len = 0;
        dgl_buf_puts(&text, "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{");
        for (int i = 0; i < count; i++)
            dgl_buf_printf(&text, "%s\"key%d\":{\"type\":\"integer\"}", i ? "," : "", i);
        dgl_buf_puts(&text, "},\"required\":[\"key0\"");
        for (int i = 1; i < count && required; i++)
            dgl_buf_printf(&text, ",\"key%d\"", i);
        dgl_buf_puts(&text, "]}");
        for (int i = 0; i < count; i += required ? 1 : 3)
            dgl_buf_printf(&document, "%s\"key%d\":%d", i ? "," : "{", i, i);
        dgl_buf_puts(&document, "}");
        if (compile(&c, text.p, false, NULL) != DGL_OK)
            fail_msg("%s", c.t.text);
        assert_int_equal(grammar_case_feed(&c, document.p, document.len), GRAMMAR_ENDS);
        grammar_case_finish(&c);
    }
    text.len = 0;
    dgl_buf_puts(&text, "{\"$ref\":\"#/$defs/r0\",\"$defs\":{");
    for (int i = 0; i < 1000; i++)
        dgl_buf_printf(&text, "\"r%d\":{\"$ref\":\"#/$defs/r%d\"},", i, i + 1);
    dgl_buf_puts(&text, "\"r1000\":{}}}");
    assert_int_equal(compile(&c, text.p, false, NULL), DGL_ERR_INVALID_ARG);
    assert_contains(c.t.text, "deeper than 128");
    grammar_case_finish(&c);
    dgl_buf_finish(&text);
    dgl_buf_finish(&document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compact),       cmocka_unit_test(test_space),
        cmocka_unit_test(test_warnings),      cmocka_unit_test(test_json_object),
        cmocka_unit_test(test_constants),     cmocka_unit_test(test_large),
        cmocka_unit_test(test_strict_limits),
    };
    return test_run_table("documents", test_documents, rows) +
           test_run_table("random documents", test_random, rows) +
           test_run_table("messages", test_wrong, wrong_rows) +
           test_run_table("strict schemas", test_strict, strict_rows) +
           test_run_table("limits", test_limits, limit_rows) +
           cmocka_run_group_tests(tests, NULL, NULL);
}
