// Checks tool schemas and results as JavaScript clients do, with both of ajv's dialects.
//
// usage: node check.mjs FILE      FILE: {"tools": [{"name", "inputSchema", "outputSchema", "arguments", "results"}]}
//
// Prints one line for every fault and exits 1, or prints what was checked.
// ajv's default class reads draft-07, which knows no prefixItems: it sees the frame of a result, not the types of cells.

import { readFileSync } from "node:fs";
import Ajv from "ajv";
import Ajv2020 from "ajv/dist/2020.js";

// Draft-07 is read as the TypeScript SDK reads it, 2020-12 with all of ajv's rules against mistakes, so that an unknown
// keyword, format or type is an error; only the length of a tuple may be said by minItems and maxItems.
const dialects = {
  "draft-07": () => new Ajv({ strict: false, allErrors: true }),
  "2020-12": () => new Ajv2020({ strict: true, strictTuples: false, allErrors: true }),
};

const { tools } = JSON.parse(readFileSync(process.argv[2], "utf-8"));
const faults = [];
let schemas = 0;
let values = 0;

function check(dialect, ajv, tool, kind, schema, instances) {
  let validate;
  try {
    validate = ajv.compile(schema);
    schemas += 1;
  } catch (error) {
    faults.push(`${dialect}: ${tool}: ${kind} schema: ${error.message}`);
    return;
  }
  instances.forEach((instance, number) => {
    values += 1;
    if (!validate(instance)) {
      const [first] = validate.errors;
      faults.push(`${dialect}: ${tool}: ${kind} ${number}: ${first.instancePath} ${first.message}`);
    }
  });
}

for (const [dialect, make] of Object.entries(dialects)) {
  for (const tool of tools) {
    check(dialect, make(), tool.name, "arguments", tool.inputSchema, tool.arguments);
    check(dialect, make(), tool.name, "result", tool.outputSchema, tool.results);
  }
}

if (faults.length > 0) {
  console.log(faults.join("\n"));
  process.exit(1);
}
console.log(`ajv: ${tools.length} tools, ${schemas} schemas, ${values} values`);
