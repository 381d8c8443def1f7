"""Structured answers and forced tool calls by frameworks of others (PyPI) against `dopplergl serve` with the bundled model. Its
answers make no sense, but each must validate. Run by check_clients.sh in an environment that has them.
usage: check_forms.py DOPPLERGL [CASE...]     Exit code 0 when all cases passed."""
import enum
import json
import os
import sys
import tempfile

from server import PATIENCE_S, Server

KEY = 'sesame'
MODEL = 'story-llama-q4_k_m'
TOKENS = 300  # enough for a point, and for a call with one
SAY = [{'role': 'user', 'content': 'Tell me a story about a dog.'}]
# A template in the Hermes form.
TEMPLATE = "{# <tool_call> #}{% for m in messages %}{{ m.content or '' }}\n{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}\n"
# JSON mode does not limit the length of an object. The bias ends it.
ENDS_SOON = {'}': 100}

os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP='True', OPENAI_AGENTS_DISABLE_TRACING='1')  # no requests to other hosts

import openai  # noqa: E402
import pydantic  # noqa: E402


class Kind(str, enum.Enum):
    near = 'near'
    far = 'far'


class Point(pydantic.BaseModel):
    """A named point."""
    model_config = pydantic.ConfigDict(extra='forbid')
    x: int = pydantic.Field(ge=-9, le=9)
    kind: Kind
    word: str = pydantic.Field(max_length=8)


class Note(pydantic.BaseModel):
    """Every object is a note."""
    text: object = None


class Bench:
    def __init__(self, url):
        self.url = url + '/v1'
        self.client = openai.OpenAI(base_url=self.url, api_key=KEY, max_retries=0, timeout=PATIENCE_S)
        self.slow = openai.AsyncOpenAI(base_url=self.url, api_key=KEY, max_retries=0, timeout=PATIENCE_S)


def point(value):
    """Fails unless it is a point, as an object, a dictionary or JSON."""
    if isinstance(value, str):
        value = json.loads(value)
    Point.model_validate(value if isinstance(value, dict) else value.model_dump())


# ---- openai -------------------------------------------------------------------------------------------------------------

ASK = {'model': MODEL, 'messages': SAY, 'max_tokens': TOKENS}
FORCE = {'tools': [openai.pydantic_function_tool(Point)], 'tool_choice': 'required', 'parallel_tool_calls': False}


def forms_openai_parse(bench):
    point(bench.client.chat.completions.parse(response_format=Point, **ASK).choices[0].message.parsed)


def forms_openai_parse_stream(bench):
    with bench.client.chat.completions.stream(response_format=Point, **ASK) as stream:
        point(stream.get_final_completion().choices[0].message.parsed)


def forms_openai_json_object(bench):
    answer = bench.client.chat.completions.create(response_format={'type': 'json_object'}, logit_bias=ENDS_SOON, **ASK)
    Note.model_validate_json(answer.choices[0].message.content)


def forms_openai_strict_tools(bench):
    answer = bench.client.chat.completions.parse(**FORCE, **ASK).choices[0]
    assert answer.finish_reason == 'tool_calls', answer
    point(answer.message.tool_calls[0].function.parsed_arguments)


def forms_openai_strict_tools_stream(bench):
    with bench.client.chat.completions.stream(**FORCE, **ASK) as stream:
        point(stream.get_final_completion().choices[0].message.tool_calls[0].function.parsed_arguments)


# ---- langchain ----------------------------------------------------------------------------------------------------------

def langchain(bench, **more):
    import langchain_openai
    return langchain_openai.ChatOpenAI(model=MODEL, base_url=bench.url, api_key=KEY, max_tokens=TOKENS, max_retries=0, **more)


def forms_langchain_function_calling(bench):
    for strict in None, True:
        point(langchain(bench).with_structured_output(Point, method='function_calling', strict=strict).invoke('Tell'))


def forms_langchain_json_schema(bench):
    point(langchain(bench).with_structured_output(Point, method='json_schema').invoke('Tell'))


def forms_langchain_json_mode(bench):
    model = langchain(bench, extra_body={'logit_bias': ENDS_SOON})
    assert isinstance(model.with_structured_output(Note, method='json_mode').invoke('Tell'), Note)


def forms_langchain_tools(bench):
    calls = langchain(bench).bind_tools([Point], tool_choice='any', parallel_tool_calls=False).invoke('Tell').tool_calls
    point(calls[0]['args'])


# ---- instructor ---------------------------------------------------------------------------------------------------------

def instruct(bench, mode, model=Point, **more):
    import instructor
    client = instructor.from_openai(bench.client, mode=getattr(instructor.Mode, mode))
    return client.chat.completions.create(response_model=model, max_retries=0, **ASK, **more)


def forms_instructor_tools(bench):
    point(instruct(bench, 'TOOLS'))
    point(instruct(bench, 'TOOLS_STRICT'))


def forms_instructor_json(bench):
    assert isinstance(instruct(bench, 'JSON', Note, logit_bias=ENDS_SOON), Note)


def forms_instructor_json_schema(bench):
    point(instruct(bench, 'JSON_SCHEMA'))


# ---- agents -------------------------------------------------------------------------------------------------------------

def pydantic_agent(bench, output):
    import pydantic_ai
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=bench.url, api_key=KEY))
    agent = pydantic_ai.Agent(model, output_type=getattr(pydantic_ai, output)(Point),
                              model_settings={'max_tokens': TOKENS, 'parallel_tool_calls': False})
    return agent.run_sync('Tell').output


def forms_pydantic_ai_tool(bench):
    point(pydantic_agent(bench, 'ToolOutput'))


def forms_pydantic_ai_native(bench):
    point(pydantic_agent(bench, 'NativeOutput'))


def run_agent(bench, settings, **more):
    import agents
    model = agents.OpenAIChatCompletionsModel(model=MODEL, openai_client=bench.slow)
    agent = agents.Agent(name='agent', model=model, model_settings=agents.ModelSettings(max_tokens=TOKENS, **settings), **more)
    return agents.Runner.run_sync(agent, 'Tell').final_output


def forms_agents_output(bench):
    point(run_agent(bench, {}, output_type=Point))


def forms_agents_tool(bench):
    import agents
    called = []

    @agents.function_tool
    def place(x: int, kind: Kind) -> str:
        """Places a point."""
        called.append((x, kind))
        return 'done'
    run_agent(bench, {'tool_choice': 'required', 'parallel_tool_calls': False}, tools=[place],
              tool_use_behavior='stop_on_first_tool')
    assert len(called) == 1, called


# ---- others -------------------------------------------------------------------------------------------------------------

def lite(bench, **more):
    import litellm
    return litellm.completion(**{**ASK, 'model': 'openai/' + MODEL}, api_base=bench.url, api_key=KEY, **more).choices[0].message


def forms_litellm_schema(bench):
    point(lite(bench, response_format=Point).content)


def forms_litellm_tools(bench):
    point(lite(bench, **FORCE).tool_calls[0].function.arguments)


def llama_index(bench, **more):
    from llama_index.core.llms import ChatMessage
    from llama_index.llms.openai_like import OpenAILike
    model = OpenAILike(model=MODEL, api_base=bench.url, api_key=KEY, is_chat_model=True, max_tokens=TOKENS, max_retries=0, **more)
    return model.as_structured_llm(Point).chat([ChatMessage(role='user', content='Tell')]).raw


def forms_llama_index_tools(bench):
    point(llama_index(bench, is_function_calling_model=True))


def forms_llama_index_schema(bench):
    point(llama_index(bench, should_use_structured_outputs=True))


CASES = [case for name, case in list(globals().items()) if name.startswith('forms_')]


def main():
    program, *names = sys.argv[1:]
    picked = [case for case in CASES if not names or case.__name__ in names]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'hermes.jinja')
        with open(path, 'w') as out:
            out.write(TEMPLATE)
        server = Server(program, '--api-key', KEY, '--template', path, '-c', '2048')
        bench, passed = Bench(server.url), 0
        try:
            for case in picked:
                try:
                    case(bench)
                    passed += 1
                    print('ok - ' + case.__name__, flush=True)
                except Exception as fault:  # whatever goes wrong, the next case has its turn
                    print('not ok - %s: %s: %s' % (case.__name__, type(fault).__name__, fault), flush=True)
        finally:
            server.stop()
    print('%d passed, %d failed' % (passed, len(picked) - passed))
    return 0 if passed == len(picked) and picked else 1


if __name__ == '__main__':
    sys.exit(main())
